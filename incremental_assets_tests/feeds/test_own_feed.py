"""A feed of somebody's own: one class, which everything that reads, plans and verifies can ask."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.frames import Frames
from incremental_assets.operations.compare import compare_with_source
from incremental_assets.operations.retract import retract
from incremental_assets.plan.forecast import forecast
from incremental_assets.plan.retract import missing_below
from incremental_assets.plan.unread import unread
from incremental_assets.sources.archives import UnpackFolder
from incremental_assets.sources.day_files import DayFiles
from incremental_assets.sources.feed import Feed
from incremental_assets.sources.landing_root import require_root
from incremental_assets.sources.lines import read_lines
from incremental_assets.sources.loaded_files import NOTHING_LOADED, LoadedFiles
from incremental_assets.sources.payloads import line_objects
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.sources.stored_files import DataFiles
from incremental_assets.storage import StoredFile, files_below
from incremental_assets.table import SameDay
from incremental_assets.verifying import verify
from incremental_assets_tests.feeds.conftest import Lakes
from incremental_assets_tests.feeds.test_rules import DAY, booking, bookings, landed, per_train
from incremental_assets_tests.feeds.world import Lake

OF_DAY, GONE = "2017005.a.txt", "2017005.b.txt"
THE_DAY = date.fromisoformat(DAY)


@dataclass(frozen=True)
class FilesOfYears(Feed):
    """JSON lines in files that are named by the number of the day in its year, `2017005.….txt`."""

    feed: str
    layout: str = "%Y%j.*.txt"

    def days(self, landing: str, loaded: LoadedFiles = NOTHING_LOADED) -> list[date]:
        return sorted(self._stored(landing))

    def listing(
        self, landing: str, days: Collection[date], loaded: LoadedFiles = NOTHING_LOADED
    ) -> Mapping[date, DayFiles]:
        stored = self._stored(landing)
        return {day: DayFiles(self.feed, stored.get(day, ())) for day in days}

    @property
    def listing_needs_loaded(self) -> bool:
        return False

    def rows(
        self, frames: Frames, landing: str, files: Sequence[SourceFile], folder: UnpackFolder
    ) -> DataFrame:
        return line_objects(read_lines(frames.session, DataFiles(landing, tuple(files))))

    def day_column(self, path: Column) -> Column:
        return F.to_date(F.substr(path, F.lit(len(self.feed) + 2), F.lit(7)), "yyyyDDD")

    def day_of(self, path: str, loaded: LoadedFiles = NOTHING_LOADED) -> date | None:
        feed, _, name = path.partition("/")
        return _day(name) if feed == self.feed and name[:7].isdigit() else None

    def passed_over(self, landing: str) -> list[str]:
        return [f.path for f in files_below(self.path_in(landing)) if not f.path[:7].isdigit()]

    def reads_below(self, path: str) -> bool:
        return path[:7].isdigit()

    @property
    def example(self) -> str:
        return f"{self.feed}/2017031.part.txt"

    @property
    def where(self) -> str:
        return f"its files are named by day, such as {self.example}"

    @property
    def layout_can_move_files(self) -> bool:
        return False

    def _stored(self, landing: str) -> Mapping[date, Sequence[StoredFile]]:
        require_root(landing)
        found: dict[date, list[StoredFile]] = {}
        for file in files_below(self.path_in(landing)):
            if file.path[:7].isdigit():
                found.setdefault(_day(file.path), []).append(file)
        return found


def _day(name: str) -> date:
    return date.fromordinal(date(int(name[:4]), 1, 1).toordinal() + int(name[4:7]) - 1)


def trains(lake: Lakes) -> Lake:
    bronze = replace(landed("bookings"), reads=(FilesOfYears("bookings"),))
    silver = replace(bookings(), reads=(SameDay(bronze),))
    shop = lake(bronze, silver, replace(per_train(), reads=(SameDay(silver),)))
    shop.land("bookings", "", OF_DAY, [booking("a", "1")])
    shop.land("bookings", "", GONE, [booking("b", "2"), "{"])
    shop.land("bookings", "", "readme.txt", ["text"])
    return shop


def test_an_own_feed_is_planned_loaded_compared_verified_and_retracted(lake: Lakes) -> None:
    shop = trains(lake)
    (bronze, silver, _), settings = shop.lakehouse.tables, shop.settings
    (planned, *_) = forecast(
        shop.lakehouse.tables, shop.lakehouse.ledger.view(), settings, None, shop.now
    ).days
    assert (planned.table, planned.day, planned.files) == (bronze.name, THE_DAY, 2)
    (note,) = unread(shop.lakehouse.tables, settings)
    assert note == (
        f"{bronze.name} does not read readme.txt in {settings.landing}/bookings: its files are "
        "named by day, such as bookings/2017031.part.txt."
    )

    shop.load(DAY)

    assert shop.rows("silver/bookings", "id") == [("a",), ("b",)]
    assert shop.pending_days(bronze.name) == []
    (compared,) = compare_with_source([bronze], shop.lakehouse.ledger.view(), settings, shop.now)
    assert (compared.source, compared.at_source, compared.in_table) == (
        f"{settings.landing}/bookings",
        f"2 files, up to {DAY}",
        f"2 files, up to {DAY}",
    )
    for table in shop.lakehouse.tables:
        found = verify(shop.lakehouse, table)
        assert (found.equal, found.left_out) == (True, {}), f"{table.name}: {found}"

    (shop.source("bookings") / GONE).unlink()
    view = shop.lakehouse.ledger.view()
    assert missing_below(silver, THE_DAY, view, settings) == [f"bookings/{GONE}"]
    list(retract(shop.lakehouse, [f"bookings/{GONE}"], "a test file"))
    assert shop.rows("silver/bookings", "id") == [("a",)]
    assert shop.rows("gold/per_train", "seats") == [(1,)]
