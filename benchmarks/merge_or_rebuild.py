"""Measure merging changed rows into a day of the mart: `python -m benchmarks.merge_or_rebuild`.

Days of three sizes are made anew; then new rows are merged into each, few of them and many. One
session of the embedded Spark, warmed up by a day. The smallest size is loaded as a small one, whose
settings are others, so the line of the model is drawn through the other two; it stands in
`incremental_assets.plan.costs`. The figures go to the terminal and to
`benchmarks/results/merge_or_rebuild.md`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from datetime import UTC, date, datetime
from pathlib import Path

from benchmarks.report import Row, machine, markdown, show
from benchmarks.report import Table as Figures
from incremental_assets.catalog import tables
from incremental_assets.load import Lakehouse
from incremental_assets.loaders import local_session
from incremental_assets.plan import costs
from incremental_assets.plan.costs import Model, Way
from incremental_assets.settings import Settings

RESULTS = Path(__file__).with_name("results")
DAYS = {
    "warm": date(2024, 5, 1),
    "tiny": date(2024, 5, 2),
    "small": date(2024, 5, 3),
    "large": date(2024, 5, 4),
}
FEW = 10
MART = "gold/sales_mart"


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
        self.house = Lakehouse(self.settings, tables(), lambda: spark, lambda: datetime.now(UTC))
        self.landed = 0

    def seconds(self, way: Way, day: date, rows: int) -> float:
        """Land new rows of a day, load them, and say how long the mart took, gone that way."""
        self._land(day, rows)
        free, dear = Model(0.001, 0, 0), Model(1000, 0, 0)
        chosen: dict[Way, Model] = {"merge": dear, "rebuild": dear}
        chosen[way] = free
        for model in ("MEASURED", "MEASURED_SMALL"):
            setattr(costs, model, chosen)
        for name in ("bronze/events", "bronze/users", "silver/sales", "silver/users"):
            self.house.load(self.tables[name], [day])
        (entry,) = self.house.load(self.tables[MART], [day]).days[day].entries
        return entry.seconds

    def _land(self, day: date, rows: int) -> None:
        self.landed += 1
        folder = Path(self.settings.landing) / "events" / str(day)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{self.landed}.jsonl").open("w") as file:
            for number in range(rows):
                row = {
                    "order_id": f"{self.landed}-{number}",
                    "user_id": str(number % 2000),
                    "store_id": str(number % 300),
                    "product_id": str(number % 40_000),
                    "qty": number % 5,
                    "unit_price": 2.5,
                    "event_ts": f"{day}T{number % 24:02}:00:00Z",
                    "arrival_ts": f"{day}T23:59:00Z",
                }
                file.write(json.dumps(row) + "\n")
        users = Path(self.settings.landing) / "users" / str(day)
        users.mkdir(parents=True, exist_ok=True)
        version = {"updated_at": f"{day}T00:00:00Z", "income": str(day)}
        lines = (json.dumps({"user_id": str(n), **version}) for n in range(2000))
        (users / "u.jsonl").write_text("\n".join(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure merging into a day of the mart.")
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the large day")
    large = parser.parse_args().rows
    sizes = {"warm": 2_000, "tiny": 2_000, "small": 30_000, "large": large}
    made: dict[str, float] = {}
    merged: dict[tuple[str, int], float] = {}
    with tempfile.TemporaryDirectory(prefix="bench-merge-") as folder:
        shop = Shop(folder)
        for name, day in DAYS.items():
            made[name] = shop.seconds("rebuild", day, sizes[name])
            for rows in (FEW, sizes[name] // 2):
                merged[name, rows] = shop.seconds("merge", day, rows)
    figures = Figures("Seconds of a batch of the sales mart", ["what", "seconds"])
    del made["warm"], merged["warm", FEW], merged["warm", sizes["warm"] // 2]
    for name, took in made.items():
        figures.rows.append(Row([f"{sizes[name]:,} rows made anew", f"{took:.2f}"]))
    for (name, rows), took in merged.items():
        figures.rows.append(Row([f"{rows:,} rows merged into {sizes[name]:,}", f"{took:.2f}"]))
    figures.rows.append(Row(["model", _model(sizes, made, merged)]))
    show([figures])
    text = markdown([figures], machine()).replace("Quick benchmark", "Merged or made anew")
    text = text.replace(
        "`make bench-quick`; whole processes on fresh lakes, in turns",
        "`python -m benchmarks.merge_or_rebuild`; one warm session",
    )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "merge_or_rebuild.md").write_text(text, encoding="utf-8")


def _model(
    sizes: dict[str, int], made: dict[str, float], merged: dict[tuple[str, int], float]
) -> str:
    """Lines through the ends: what a row more costs, and what is left for no rows."""
    more = sizes["large"] - sizes["small"]
    made_row = (made["large"] - made["small"]) / more
    kept_row = (merged["large", FEW] - merged["small", FEW]) / more
    many = sizes["large"] // 2
    new_row = (merged["large", many] - merged["large", FEW]) / (many - FEW)
    fixed = made["small"] - made_row * sizes["small"]
    merge_fixed = merged["small", FEW] - kept_row * sizes["small"]
    return (
        f"rebuild: {fixed:.2f} + {made_row * 1e6:.1f}e-6 a row; merge: {merge_fixed:.2f} + "
        f"{new_row * 1e6:.1f}e-6 a changed row + {kept_row * 1e6:.1f}e-6 a row of the day"
    )


if __name__ == "__main__":
    main()
