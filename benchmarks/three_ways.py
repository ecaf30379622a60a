"""Load a quarter of all feeds in three ways, and compare each with the truth of the feeds.

`python -m benchmarks.three_ways` lands a sample of the demo's feeds, with late, repeated and bad
rows, and loads it into three lakes: day by day as it lands; in ranges of a month; and in shuffled
order, every third day twice. What is new or stale then is loaded, as `incremental-assets run` would
do. The tables of each lake must equal what the tests' oracle works out from the landed files alone,
and a further load must find nothing to do. The minutes and the verdicts go to the terminal and to
`benchmarks/results/three_ways.md`.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from deltalake import DeltaTable
from rich.console import Console

from benchmarks.report import Row, machine, show, write
from benchmarks.report import Table as Figures
from incremental_assets.catalog import tables
from incremental_assets.days import DayRange, chunks
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.loaders import local_session
from incremental_assets.plan import stale_days, why_pending
from incremental_assets.retail.feed.land import land
from incremental_assets.settings import Settings
from incremental_assets.table import Table
from incremental_assets_tests.retail_truth import assert_tables_are_the_truth, retail_truth

SHARES = {"late": 0.05, "duplicate": 0.01, "bad": 0.004}
SEED = 20170101
_log = Console(stderr=True, highlight=False).print


@dataclass(frozen=True)
class Options:
    """What is to be loaded, and where."""

    days: DayRange
    sample: float
    folder: Path
    tables: Sequence[Table]

    def land(self, landing: Path, days: DayRange) -> None:
        land(str(landing), days.first, days.last, **SHARES, sample=self.sample, progress=_nothing)


class Lake:
    """A lake of the project's own tables, and the ways in which it is loaded."""

    def __init__(self, options: Options, name: str, landing: Path) -> None:
        self.options, self.name = options, name
        self.settings = Settings.from_environment(
            {
                "INCREMENTAL_ASSETS_LAKE": str(options.folder / name.partition(" ")[0]),
                "INCREMENTAL_ASSETS_LANDING": str(landing),
                "INCREMENTAL_ASSETS_START_DATE": str(options.days.first),
            }
        )
        spark = local_session()
        self.lakehouse = Lakehouse(
            self.settings, tables(), lambda: spark, lambda: datetime.now(UTC)
        )
        self.runs = 0

    def run(self, days: Sequence[date]) -> None:
        """Load these days of all tables, as one run does."""
        started = time.monotonic()
        for table in self.options.tables:
            for day, result in self.lakehouse.load(table, days).failed.items():
                _log(f"{self.name}: {table.name} {day}: {result.reason}")
        self.runs += 1
        took = time.monotonic() - started
        _log(f"{self.name}: run {self.runs}: {days[0]}, {len(days)} days, {took:.1f} s")

    def run_due(self) -> int:
        """Load what is new or stale until nothing is; how many days of tables that were."""
        first, last = self.options.days.first, self.options.days.last
        loaded = 0
        for table in self.options.tables:  # upstreams come first
            view = self.lakehouse.ledger.view()
            if table.upstreams:
                days = stale_days(table, view, first, last)
            else:
                days = why_pending(table, view, self.settings, first, last)
            loaded += len(days)
            if days:
                self.lakehouse.load(table, list(days))
        return loaded

    def versions(self) -> dict[str, int]:
        return {
            t.name: DeltaTable(f"{self.settings.lake}/{t.name}").version()
            for t in self.options.tables
        }

    def check(self) -> str:
        """What differs from the truth; "" if nothing does."""
        truth = retail_truth(
            Path(self.settings.landing), self.options.days.first, list(self.options.days)
        )
        try:
            names = [table.name for table in self.options.tables if table.layer != "bronze"]
            assert_tables_are_the_truth(self.settings.lake, truth, names)
        except AssertionError as error:
            return str(error)
        before = self.versions()
        self.run(list(self.options.days))
        assert self.run_due() == 0
        return "" if self.versions() == before else "a further load wrote something"


def day_by_day(lake: Lake, landing: Path) -> None:
    """Each day lands, and is loaded; what is late comes with a later one."""
    for day in lake.options.days:
        lake.options.land(landing, DayRange(day, day))
        lake.run([day])


def by_ranges(lake: Lake, _: Path) -> None:
    for days in chunks(list(lake.options.days), 31):
        lake.run(days)


def shuffled(lake: Lake, _: Path) -> None:
    """Every day in any order, and every third one a second time."""
    chance = random.Random(SEED)
    days = list(lake.options.days)
    days += chance.sample(days, len(days) // 3)
    chance.shuffle(days)
    for day in days:
        lake.run([day])


WAYS: dict[str, Callable[[Lake, Path], None]] = {
    "day by day": day_by_day,
    "ranges of a month": by_ranges,
    "shuffled, a third twice": shuffled,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Load a quarter in three ways.")
    parser.add_argument("--from", dest="first", type=date.fromisoformat, default="2017-01-01")
    parser.add_argument("--to", dest="last", type=date.fromisoformat, default="2017-03-31")
    parser.add_argument("--sample", type=float, default=0.03, help="share of households, products")
    parser.add_argument("--ways", nargs="*", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--tables", nargs="*", help="only these, upstreams first")
    parser.add_argument("--folder", type=Path, help="keep the lakes here, and go on with those")
    given = parser.parse_args()
    chosen = [table for table in tables() if not given.tables or table.name in given.tables]
    figures = Figures("A quarter, loaded and compared", ["way", "runs", "minutes", "verdict"])
    with ExitStack() as kept:
        folder = given.folder or kept.enter_context(tempfile.TemporaryDirectory(prefix="ways-"))
        options = Options(DayRange(given.first, given.last), given.sample, Path(folder), chosen)
        every = Path(folder) / "landing"
        options.land(every, options.days)
        for name in given.ways:
            landing = Path(folder) / "arriving" if WAYS[name] is day_by_day else every
            lake = Lake(options, name, landing)
            started = time.monotonic()
            WAYS[name](lake, landing)
            again = lake.run_due()
            runs, minutes = lake.runs, (time.monotonic() - started) / 60
            verdict = lake.check() or "equals the truth; a further load writes nothing"
            _log(
                f"{name}: {minutes:.1f} min, {again} days of tables were due at the end: {verdict}"
            )
            figures.rows.append(
                Row([name, str(runs), f"{minutes:.1f}", verdict.partition("\n")[0]])
            )
        truth = retail_truth(every, options.days.first, list(options.days))
    rows = [Row([name, f"{len(frame):,}"]) for name, frame in truth.items()]
    compared = Figures("What was compared", ["table", "rows"], rows)
    show([figures, compared])
    what = f"{given.first} … {given.last}, a share of {given.sample} of households and products"
    shares = ", ".join(f"{share:.1%} {name}" for name, share in SHARES.items())
    how = f"`python -m benchmarks.three_ways`: {what}, {shares} rows; one warm session"
    write("three_ways", "Three ways to the same tables", how, [figures, compared], machine())


def _nothing(_: str) -> None:
    """Landing is quick; the runs are reported."""


if __name__ == "__main__":
    main()
