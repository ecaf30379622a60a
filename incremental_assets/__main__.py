"""The command line's way in: `incremental-assets …`, or `python -m incremental_assets …`."""

from __future__ import annotations

import sys


def start() -> None:
    """Run the command line. Stopped while it is still being imported, it ends as it does later."""
    try:
        from incremental_assets.cli import main
    except KeyboardInterrupt:
        sys.stderr.write("\nAborted!\n")
        sys.exit(1)
    main()


if __name__ == "__main__":
    start()
