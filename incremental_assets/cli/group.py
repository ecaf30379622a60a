"""The command that all others belong to, and how it tells an error."""

from __future__ import annotations

import sys

import click

from incremental_assets.cli.output import bad, say
from incremental_assets.errors import INTERRUPTED, STOPPED, IncrementalAssetsError


class _Group(click.Group):
    """Errors that the project raises on purpose are told in their own words, without a trace."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except IncrementalAssetsError as error:
            bad("Error:", str(error))
            sys.exit(1)
        except KeyboardInterrupt:
            say(f"\n{STOPPED}")
            sys.exit(INTERRUPTED)


@click.group(cls=_Group)
@click.version_option(package_name="incremental-assets")
def main() -> None:
    """Incremental loading on Spark and Delta Lake, day by day and exactly once."""
