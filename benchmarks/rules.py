"""Measure what rules cost: `python -m benchmarks.rules`.

A million landed rows are loaded into silver tables that differ in their rules alone, one and forty,
in turns and in one warm session. The seconds and their ratio go to the
terminal and to `benchmarks/results/rules.md`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from benchmarks.events import event
from benchmarks.report import Row, machine, show, write
from benchmarks.report import Table as Figures
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.loaders import local_session
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.rules import (
    Rule,
    at_least,
    between,
    matches,
    not_null,
    null_share,
    one_of,
    quarantine,
    quarantined_share,
    satisfies,
    warn,
)
from incremental_assets.quality.types import Decimal, Instant, Integer, Text
from incremental_assets.settings import Settings
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.table import SameDay, Table
from incremental_assets.writes import Append, Merge

DAY = date(2024, 5, 1)
TURNS = 2
COLUMNS = ("user_id", "store_id", "product_id", "qty", "unit_price", "event_ts")
LANDED = Table("bronze/events", "Events.", (LandedFiles("events"),), Append(), day="event_ts")


def forty_rules() -> Sequence[Rule]:
    """Rules on each column, of each kind that judges a row by itself, and on the day."""
    values = [not_null(name) for name in COLUMNS]
    values += [at_least("qty", 0), between("unit_price", 0, 1000), matches("store_id", "[0-9]+")]
    values += [one_of("store_id", [str(n) for n in range(300)])]
    values += [satisfies(f"sql_{n}", f"qty * unit_price < {10_000 + n}") for n in range(23)]
    shares = [null_share(name, 0.5) for name in COLUMNS]
    rules = (*quarantine(*values), *warn(*shares, quarantined_share(0.05)))
    assert len(rules) == 40
    return rules


def silver(name: str, rules: Sequence[Rule]) -> Table:
    return Table(
        f"silver/{name}",
        "Events, typed.",
        (SameDay(LANDED),),
        Merge(),
        key=("order_id",),
        version_by=("event_ts",),
        day="event_ts",
        schema=Contract(
            order_id=Text(),
            user_id=Text(),
            store_id=Text(),
            product_id=Text(),
            qty=Integer(),
            unit_price=Decimal(18, 4),
            event_ts=Instant(),
            arrival_ts=Instant(),
        ),
        rules=tuple(rules),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what rules cost.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    kinds = {"one": quarantine(not_null("order_id")), "forty": forty_rules()}
    took: dict[str, list[float]] = {kind: [] for kind in kinds}
    turns = [f"{kind}_{turn}" for turn in range(TURNS) for kind in kinds]
    made = {name: silver(name, kinds[name.partition("_")[0]]) for name in turns}
    with tempfile.TemporaryDirectory(prefix="bench-rules-") as folder:
        settings = Settings.from_environment(
            {
                "INCREMENTAL_ASSETS_LAKE": f"{folder}/lake",
                "INCREMENTAL_ASSETS_LANDING": f"{folder}/landing",
                "INCREMENTAL_ASSETS_START_DATE": str(DAY),
            }
        )
        spark = local_session()
        tables = (LANDED, *made.values())
        lakehouse = Lakehouse(settings, tables, lambda: spark, lambda: datetime.now(UTC))
        land(Path(settings.landing), rows)
        lakehouse.load(LANDED, [DAY])
        for name in turns:
            (entry,) = lakehouse.load(made[name], [DAY]).days[DAY].entries
            assert entry.rows_inserted == rows
            took[name.partition("_")[0]].append(entry.seconds)
    figures = Figures(f"Seconds of a load of {rows:,} rows into silver", ["rules", "lowest", "all"])
    for kind, seconds in took.items():
        every = ", ".join(f"{s:.1f}" for s in seconds)
        figures.rows.append(Row([kind, f"{min(seconds):.1f}", every]))
    figures.rows.append(Row(["ratio", f"{min(took['forty']) / min(took['one']):.2f}"]))
    show([figures])
    how = "`python -m benchmarks.rules`; one warm session, in turns"
    write("rules", "What rules cost", how, [figures], machine())


def land(landing: Path, rows: int) -> None:
    folder = landing / "events" / str(DAY)
    folder.mkdir(parents=True)
    with (folder / "1.jsonl").open("w", encoding="utf-8") as file:
        for number in range(rows):
            file.write(json.dumps(event(str(number), number, DAY)) + "\n")


if __name__ == "__main__":
    main()
