"""The command line: `incremental-assets …`.

Each module holds one command or group, and has its name: a function becomes a command by
`@main.command()`, a group of commands by `@main.group()`. A module is imported when its command is
run, so it imports what brings PySpark or Dagster inside the function: wrong words fail at once.
"""

from incremental_assets.cli.group import main

__all__ = ["main"]
