"""What `python -m incremental_assets.cli` does."""

from incremental_assets.cli import main

main()
