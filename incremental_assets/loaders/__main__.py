"""`python -m incremental_assets.loaders` is the demo of the four loaders."""

import sys

from incremental_assets.retail.loaders.demo import main

if __name__ == "__main__":
    sys.exit(main())
