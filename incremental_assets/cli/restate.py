"""`restate`: days of tables, and all that stands on them, built anew."""

from __future__ import annotations

import sys

import click

from incremental_assets.cli.options import JSON_OBJECT
from incremental_assets.cli.output import OUT, bad, show_object
from incremental_assets.settings import Settings


@click.command()
@click.argument("names", metavar="TABLE...", nargs=-1, required=True)
@click.option(
    "--days", "--day", "span", metavar="A...B", default="", help="Which days; all, if not said."
)
@click.option("--why", required=True, help="Why; it stays on record with the batches.")
@JSON_OBJECT
def restate(names: tuple[str, ...], span: str, why: str, *, as_json: bool) -> None:
    """Build days of silver or gold tables anew from what they are made of, and what stands on them.

    That may be other days, too: facts that look up what changed, levels that go on from the day
    before. It runs as the Dagster job `restate`. The exit status is 1 if a day was refused or held.
    """
    from incremental_assets.definitions import defs
    from incremental_assets.orchestration.incidents import run_restate

    failed = run_restate(defs, Settings.from_environment(), names, span, why)
    if as_json:
        show_object({"tables": names, "days": span, "why": why, "failed": failed})
    if failed:
        bad("Error:", failed)
        sys.exit(1)
    if not as_json:
        OUT.print(f"Restated: {', '.join(names)}, with what stands on them.", soft_wrap=True)
