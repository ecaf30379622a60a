"""`ledger`: the ledger itself, which can be rebuilt."""

from __future__ import annotations

import click
import polars as pl

from incremental_assets.cli.context import open_lakehouse, tables_named
from incremental_assets.cli.group import main
from incremental_assets.cli.options import JSON, NAMES, YES
from incremental_assets.cli.output import OUT, show
from incremental_assets.days import named


@main.group()
def ledger() -> None:
    """The ledger itself: what every load records."""


@ledger.command("rebuild")
@NAMES
@YES
@JSON
def ledger_rebuild(names: tuple[str, ...], *, yes: bool, as_json: bool) -> None:
    """Rebuild the ledger from the logs of the tables.

    Of these tables, or of all, where it was lost or is older than they are. The logs show which
    days were published, and not what was read for them: the next run loads all of that again and
    replaces the rows. No row is removed before that. The old ledger is kept next to the new one;
    manual decisions (accepted, dropped, rewound) are only in the old one.
    """
    from incremental_assets.operations.rebuild_ledger import rebuild_ledger, require_a_lake

    some = tables_named(names)
    lakehouse = open_lakehouse()
    require_a_lake(lakehouse)
    if not yes:
        what = ", ".join(table.name for table in some) if names else "all tables"
        click.confirm(
            f"The ledger of {lakehouse.settings.lake} is rebuilt for {what}, and the next run "
            "loads all of them again. Rebuild?",
            abort=True,
            err=as_json,
        )
    done = rebuild_ledger(lakehouse, some)
    rows = [
        {"table": t.name, "batches": r.batches, "days": len(r.days), "of": named(r.days)}
        for t, r in zip(some, done.tables, strict=True)
    ]
    kinds = {"table": pl.String, "batches": pl.Int64, "days": pl.Int64, "of": pl.String}
    show(pl.DataFrame(rows, schema=kinds), "To be loaded again", as_json=as_json)
    if not as_json:
        former = f" The old one is {done.former}." if done.former else ""
        OUT.print(
            f"The ledger was rebuilt.{former} `incremental-assets run` loads.", soft_wrap=True
        )
