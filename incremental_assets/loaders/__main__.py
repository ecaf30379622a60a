"""`python -m incremental_assets.loaders` shows the four loaders: the demo, from the retailer's."""

import sys

from incremental_assets.retail.loaders.demo import main

if __name__ == "__main__":
    sys.exit(main())
