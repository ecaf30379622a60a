"""Measure merging changed rows into a day of the mart: `python -m benchmarks.merge_or_rebuild`.

Days of four sizes are rebuilt; then new rows are merged into each, few of them and many. One
session of the embedded Spark, warmed up by a day. Two of the sizes are loaded as small ones, whose
settings are others, so two models are drawn through two sizes each; the rule that follows from
them stands in `incremental_assets.plan.merge_or_rebuild`. Each figure is the lower of two turns.
The figures go to the terminal and to `benchmarks/results/merge_or_rebuild.md`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from benchmarks.events import event
from benchmarks.report import Row, machine, show, write
from benchmarks.report import Table as Figures
from incremental_assets.catalog import tables
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.loaders import local_session
from incremental_assets.plan import derived
from incremental_assets.plan.merge_or_rebuild import Way
from incremental_assets.settings import Settings

SIZES = {"tiny": 2_000, "small": 15_000, "medium": 30_000}
FEW = 10
TURNS = 2
SILVER, MART = "silver/sales", "gold/sales_mart"
Took = Mapping[tuple[str, str], float]


class Shop:
    """A lake of the project's own tables of sales, whose mart is loaded either way."""

    def __init__(self, folder: str) -> None:
        self.settings = Settings.from_environment(
            {
                "INCREMENTAL_ASSETS_LAKE": f"{folder}/lake",
                "INCREMENTAL_ASSETS_LANDING": f"{folder}/landing",
                "INCREMENTAL_ASSETS_START_DATE": "2024-05-01",
            }
        )
        spark = local_session()
        self.tables = {table.name: table for table in tables()}
        self.lakehouse = Lakehouse(
            self.settings, tables(), lambda: spark, lambda: datetime.now(UTC)
        )
        self.landed = 0

    def seconds(self, way: Way, day: date, rows: int) -> tuple[float, float]:
        """Land new rows of a day, load them, and say how long silver and the mart took.

        The mart goes the way that is said. Silver appends the rows of an empty day, types and
        ranks them as if it rebuilt the day, and merges later ones.
        """
        self._land(day, rows)
        derived.merge_or_rebuild = lambda *_: (way, "as the benchmark says")
        for name in ("bronze/events", "bronze/users", "silver/users"):
            self.lakehouse.load(self.tables[name], [day])
        (typed,) = self.lakehouse.load(self.tables[SILVER], [day]).days[day].entries
        (joined,) = self.lakehouse.load(self.tables[MART], [day]).days[day].entries
        assert joined.mode == way
        assert typed.mode == ("append" if way == "rebuild" else "merge")
        return typed.seconds, joined.seconds

    def _land(self, day: date, rows: int) -> None:
        self.landed += 1
        folder = Path(self.settings.landing) / "events" / str(day)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{self.landed}.jsonl").open("w") as file:
            for number in range(rows):
                row = event(f"{self.landed}-{number}", number, day)
                file.write(json.dumps(row) + "\n")
        users = Path(self.settings.landing) / "users" / str(day)
        users.mkdir(parents=True, exist_ok=True)
        version = {"updated_at": f"{day}T00:00:00Z", "income": str(day)}
        lines = (json.dumps({"user_id": str(n), **version}) for n in range(2000))
        (users / "u.jsonl").write_text("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure merging into a day of the mart.")
    parser.add_argument("--rows", type=int, default=500_000, help="rows of the large day")
    sizes = SIZES | {"large": parser.parse_args().rows}
    silver: dict[tuple[str, str], float] = {}
    mart: dict[tuple[str, str], float] = {}
    with tempfile.TemporaryDirectory(prefix="bench-merge-") as folder:
        shop, day = Shop(folder), date(2024, 5, 1)
        for size, rows in {"warm": sizes["tiny"], **sizes}.items():
            for _ in range(TURNS if size != "large" else 1):
                day += timedelta(days=1)
                for what, new in {"made": rows, "few": FEW, "many": rows // 2}.items():
                    way: Way = "rebuild" if what == "made" else "merge"
                    for kept, took in zip((silver, mart), shop.seconds(way, day, new), strict=True):
                        kept[size, what] = min(took, kept.get((size, what), took))
    figures = Figures("Seconds of a batch", ["what", SILVER, MART])
    for size, rows in sizes.items():
        ways = {"made": f"{rows:,} rows rebuilt", "few": f"{FEW} rows merged into {rows:,}"}
        for what, text in (ways | {"many": f"{rows // 2:,} more merged into them"}).items():
            seconds = (f"{took[size, what]:.2f}" for took in (silver, mart))
            figures.rows.append(Row([text, *seconds]))
    models = Figures("Models: seconds, and millionths of a second a row", ["of", "model"])
    for name, ends in {"small days": ("tiny", "small"), "other days": ("medium", "large")}.items():
        for table, took in {SILVER: silver, MART: mart}.items():
            models.rows.append(Row([f"{name} of {table}", _model(sizes, ends, took)]))
    show([figures, models])
    how = "`python -m benchmarks.merge_or_rebuild`; one warm session, the lower of two turns"
    write("merge_or_rebuild", "Merge or rebuild", how, [figures, models], machine())


def _model(sizes: Mapping[str, int], ends: tuple[str, str], took: Took) -> str:
    """Lines through the ends: what a row more costs, and what is left for no rows."""
    low, high = ends
    more, many = sizes[high] - sizes[low], sizes[high] // 2
    made_row = (took[high, "made"] - took[low, "made"]) / more
    kept_row = (took[high, "few"] - took[low, "few"]) / more
    new_row = (took[high, "many"] - took[high, "few"]) / (many - FEW)
    fixed = took[low, "made"] - made_row * sizes[low]
    merge_fixed = took[low, "few"] - kept_row * sizes[low]
    return (
        f"rebuilt {fixed:.2f} + {made_row * 1e6:.1f} a row; merged {merge_fixed:.2f} + "
        f"{new_row * 1e6:.1f} a changed row + {kept_row * 1e6:.1f} a row of the day"
    )


if __name__ == "__main__":
    main()
