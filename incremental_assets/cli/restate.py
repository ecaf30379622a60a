"""`restate`: rebuilds days of tables, and all that depends on them."""

from __future__ import annotations

import sys

from incremental_assets.cli.context import ledger_view
from incremental_assets.cli.group import main
from incremental_assets.cli.options import DAYS, JSON_OBJECT, REASON, SOME_NAMES
from incremental_assets.cli.output import OUT, bad, show_object
from incremental_assets.days import DayRange
from incremental_assets.settings import Settings


@main.command()
@SOME_NAMES
@DAYS
@REASON
@JSON_OBJECT
def restate(names: tuple[str, ...], days: DayRange | None, reason: str, *, as_json: bool) -> None:
    """Rebuild days of silver or gold tables from bronze.

    With them all that depends on them, which may be other days, too: facts that look up what
    changed, levels that continue from the day before. It runs as the Dagster job `restate`. The
    exit status is 1 if a day was refused or held.
    """
    from incremental_assets.orchestration import jobs
    from incremental_assets.orchestration.incidents import run_restate

    settings = Settings.from_environment()
    ledger_view(settings)
    asked = "" if days is None else str(days)
    failed = run_restate(jobs.restate, settings, names, asked, reason)
    if as_json:
        show_object({"tables": names, "days": asked, "why": reason, "failed": failed})
    if failed:
        bad("Error:", failed)
        sys.exit(1)
    if not as_json:
        it = "it" if len(names) == 1 else "them"
        OUT.print(f"Restated: {', '.join(names)}, with all that depends on {it}.", soft_wrap=True)
