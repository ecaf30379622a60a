"""The command that all others belong to, and how it prints an error."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from incremental_assets.cli.interrupts import was_interrupted
from incremental_assets.cli.output import bad, log
from incremental_assets.errors import INTERRUPTED, STOPPED, IncrementalAssetsError


class _Group(click.Group):
    """Errors that the project raises on purpose are printed as their message, without a trace."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _end_stopped()
        except (Exception, SystemExit) as error:
            if was_interrupted():
                _end_stopped()
            if not isinstance(error, IncrementalAssetsError):
                raise
            bad("Error:", str(error))
            sys.exit(1)


def _end_stopped() -> NoReturn:
    log(f"\n{STOPPED}")
    sys.exit(INTERRUPTED)


@click.group(cls=_Group)
@click.version_option(package_name="incremental-assets")
def main() -> None:
    """Incremental loading on Spark and Delta Lake, day by day and exactly once."""
