"""The command line: `incremental-assets …`.

Each module holds one command or group and is imported by itself: a function becomes a command by
`@main.command()`, a group of commands by `@main.group()`.
"""

import importlib
import pkgutil

from incremental_assets.cli.group import main

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["main"]
