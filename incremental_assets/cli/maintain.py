"""`maintain`: keeping the lake fast and small, while loads go on."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import UTC, datetime

import click
import polars as pl

from incremental_assets.cli.group import main
from incremental_assets.cli.options import DAYS, JSON, NAMES, one_of
from incremental_assets.cli.output import OUT, bad, log, show
from incremental_assets.days import DayRange, named
from incremental_assets.plurals import counted
from incremental_assets.settings import Settings

STEPS = ("optimize", "vacuum", "checkpoint", "quarantine", "ledger")


@main.command()
@NAMES
@DAYS
@click.option(
    "--only",
    "steps",
    multiple=True,
    metavar="STEP",
    type=one_of("step of maintenance", STEPS),
    help=f"Only {', '.join(STEPS[:-1])} or {STEPS[-1]}; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Only list what would be done.")
@JSON
def maintain(
    names: tuple[str, ...],
    days: DayRange | None,
    steps: tuple[str, ...],
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Compact files, remove old ones, cut logs and the ledger.

    The files of each day are compacted, and files that no version needs are removed.

    Loads may go on meanwhile: a table that is being loaded is skipped. --days bounds whose files
    are compacted. The exit status is 1 if something could not be done.
    """
    from incremental_assets.cli.context import lazy_spark, tables_named
    from incremental_assets.maintenance import MaintenanceOptions, steps_named
    from incremental_assets.maintenance import maintain as maintain_lake

    settings = Settings.from_environment()
    options = MaintenanceOptions(days, steps_named(steps), dry_run)
    done = maintain_lake(
        settings,
        tables_named(names),
        lazy_spark(settings),
        datetime.now(UTC),
        options,
        log,
    )
    rows = []
    for table in done.tables:
        row = asdict(table) | {"days": list(table.days), "skipped": list(table.skipped)}
        rows.append(row if as_json else _shown(row, named(table.days)))
    title = "Would be done" if dry_run else "Done"
    found = pl.DataFrame(rows, infer_schema_length=None)
    show(found, title, as_json=as_json, can_lack=("seconds", "checkpoint", "expired", "removed"))
    if done.ledger_files and not as_json:
        before, after = done.ledger_files
        OUT.print(f"ledger: {counted(before, 'file')}, now {after}")
    for line in done.failed:
        bad("failed", line)
    if done.failed:
        sys.exit(1)


def _shown(row: dict[str, object], days: str) -> dict[str, object]:
    return {
        "table": row["name"],
        "files": f"{row['files_before']} → {row['files_after']}",
        "bytes": row["bytes_after"],
        "days compacted": days,
        "removed": row["removed"],
        "freed": row["freed"],
        "checkpoint": row["checkpoint"],
        "expired": row["rows_expired"],
        "seconds": row["seconds"],
        "left": "; ".join(map(str, (*row["skipped"], *filter(None, (row["failed"],))))),  # type: ignore[misc]
    }
