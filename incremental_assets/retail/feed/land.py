"""Land the demo's feeds, a day at a time, each day's part of a feed whole or not there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, Literal, TypeVar, get_args

from incremental_assets.days import DayRange
from incremental_assets.errors import DemoFeedError
from incremental_assets.plurals import counted
from incremental_assets.retail.feed.broken_tills import with_decimal_commas
from incremental_assets.retail.feed.data_set import DataSet
from incremental_assets.retail.feed.deliveries import (
    MAX_DELAY_DAYS,
    Delivery,
    by_landing_day,
    line_files,
    table_file,
)
from incremental_assets.retail.feed.draws import Shares
from incremental_assets.retail.feed.events import event_deliveries
from incremental_assets.retail.feed.landing_store import WHOLE, LandingStore, open_landing
from incremental_assets.retail.feed.movements import SCHEMA as MOVEMENT
from incremental_assets.retail.feed.movements import movement_deliveries
from incremental_assets.retail.feed.orders import LONGEST_DAYS, order_deliveries
from incremental_assets.retail.feed.orders import SCHEMA as ORDER
from incremental_assets.retail.feed.products import catalogue_on
from incremental_assets.retail.feed.users import users_by_landing_day

Sent = TypeVar("Sent")
FeedName = Literal["events", "users", "orders", "inventory_movements", "products"]
FEEDS: Final[tuple[FeedName, ...]] = get_args(FeedName)
TABLES: Final[tuple[FeedName, ...]] = ("orders", "inventory_movements")
"""The feeds that are tables: a Parquet file of rows a day. The others are folders of lines."""


@dataclass(frozen=True)
class LandedPart:
    """The outcome of one feed's part of one landing day.

    `files` and `rows` count what this run wrote, so they are 0 for what was left alone. `late`,
    `duplicated` (second deliveries, corrections among them) and `bad` are parts of `rows`.
    """

    feed: FeedName
    day: date
    outcome: Literal["written", "left alone", "nothing to land"]
    files: int = 0
    rows: int = 0
    late: int = 0
    duplicated: int = 0
    bad: int = 0


@dataclass(frozen=True)
class LandSummary:
    """What `land` did: a part for each feed and day, in the order of the days.

    `span` are the days of the data set's sales.
    """

    parts: tuple[LandedPart, ...]
    span: DayRange

    @property
    def written(self) -> tuple[LandedPart, ...]:
        """The parts that this run wrote."""
        return tuple(each for each in self.parts if each.outcome == "written")

    @property
    def left_alone(self) -> tuple[LandedPart, ...]:
        """The parts that were there before."""
        return tuple(each for each in self.parts if each.outcome == "left alone")


@dataclass(frozen=True)
class _FeedDay:
    """What a feed lands on a day."""

    content: Mapping[str, bytes]
    rows: int = 0
    late: int = 0
    duplicated: int = 0
    bad: int = 0


def land(
    landing: str,
    first: date,
    last: date,
    late: float = 0.01,
    duplicate: float = 0.002,
    bad: float = 0.001,
    sample: float = 1.0,
    broken_day: date | None = None,
    feeds: Sequence[FeedName] = FEEDS,
    *,
    progress: Callable[[str], None],
) -> LandSummary:
    """Write the landing days from `first` to `last`, both included, below `landing`.

    `landing` is a local folder or any URI that fsspec knows. `events`, `users` and `products` are
    JSON lines in a folder a day, `orders` and `inventory_movements` tables of a Parquet file a day.
    A day's files hold the same bytes whatever the range. On a local disk a
    folder or table file appears whole, and one that exists is left alone, also when it was landed
    with other shares; on other stores this holds for each file. What has nothing to land has no
    folder. `sample` takes a share of the households and products. On `broken_day` the tills of two
    stores send prices that cannot be read. Other feeds than `feeds` are left out. `progress` gets a
    line per day.

    Raises DemoFeedError where the range is reversed, a share is not one, the data set is not
    installed or the landing cannot be written.
    """
    if first > last:
        msg = f"The range of days is reversed: {first} is after {last}. Give the earlier day first."
        raise DemoFeedError(msg)
    shares = Shares(late, duplicate, bad)
    data_set = DataSet.installed(sample)
    try:
        store = open_landing(landing)
        parts = _land(store, data_set, DayRange(first, last), shares, broken_day, feeds, progress)
        return LandSummary(tuple(parts), data_set.span)
    except OSError as error:
        msg = f"Cannot write the demo feed to {landing}: {error}. Give a folder that is writable."
        raise DemoFeedError(msg) from error


def send_again(landing: str, day: date, sample: float = 1.0) -> LandedPart:
    """Replace a landing day's sales by what working tills send, file by file.

    Raises DemoFeedError where the day has no sales, the data set is not installed or the landing
    cannot be written.
    """
    data_set = DataSet.installed(sample)
    (part,) = _events(data_set, [day], Shares())
    if not part.content:
        raise DemoFeedError(f"No sales land on {day}: the data set has the days {data_set.span}.")
    try:
        open_landing(landing).replace(_path("events", day), part.content)
    except OSError as error:
        msg = f"Cannot write the demo feed to {landing}: {error}. Give a folder that is writable."
        raise DemoFeedError(msg) from error
    return _written("events", day, part, len(part.content))


def _land(
    store: LandingStore,
    data_set: DataSet,
    days: DayRange,
    shares: Shares,
    broken_day: date | None,
    feeds: Sequence[FeedName],
    progress: Callable[[str], None],
) -> Iterator[LandedPart]:
    wanted = [feed for feed in _PARTS if feed in feeds]
    missing = {feed: [day for day in days if not store.holds(_path(feed, day))] for feed in wanted}
    parts = {feed: _PARTS[feed](data_set, some, shares) for feed, some in missing.items() if some}
    if missing.get("events"):
        parts["events"] = _events(data_set, missing["events"], shares, broken_day)
    for day in days:
        landed = [
            _put(store, feed, day, next(parts[feed]))
            if day in missing[feed]
            else LandedPart(feed, day, "left alone")
            for feed in wanted
        ]
        progress(f"{day}  " + ", ".join(_in_words(part) for part in landed))
        yield from landed


def _put(store: LandingStore, feed: FeedName, day: date, part: _FeedDay) -> LandedPart:
    if not part.content:
        return LandedPart(feed, day, "nothing to land")
    written = store.put(_path(feed, day), part.content)
    if not written:
        return LandedPart(feed, day, "left alone")
    return _written(feed, day, part, written)


def _written(feed: FeedName, day: date, part: _FeedDay, files: int) -> LandedPart:
    return LandedPart(feed, day, "written", files, part.rows, part.late, part.duplicated, part.bad)


def _path(feed: FeedName, day: date) -> str:
    return f"{feed}/{day}.parquet" if feed in TABLES else f"{feed}/{day}"


def _in_words(part: LandedPart) -> str:
    if part.outcome != "written":
        return f"{part.feed} {part.outcome}"
    parts = {"late": part.late, "twice": part.duplicated, "bad": part.bad}
    noted = ", ".join(f"{count:,} {what}" for what, count in parts.items() if count)
    return f"{part.feed} {counted(part.rows, 'row')}" + (f" ({noted})" if noted else "")


def _part(deliveries: Sequence[Delivery], content: Mapping[str, bytes]) -> _FeedDay:
    return _FeedDay(
        content if deliveries else {},
        rows=len(deliveries),
        late=sum(each.late for each in deliveries),
        duplicated=sum(each.again for each in deliveries),
        bad=sum(each.bad for each in deliveries),
    )


def _events(
    data_set: DataSet, days: Collection[date], shares: Shares, broken_day: date | None = None
) -> Iterator[_FeedDay]:
    found = data_set.transactions(DayRange(min(days), max(days)))
    landed = _landed(found, event_deliveries, days, shares)
    for day, lines in zip(sorted(days), landed, strict=True):
        sent = list(with_decimal_commas(lines)) if day == broken_day else lines
        yield _part(sent, line_files(sent))


def _users(data_set: DataSet, days: Collection[date], shares: Shares) -> Iterator[_FeedDay]:
    found = users_by_landing_day(data_set.households(), shares)
    for day in sorted(days):
        landed = found.get(day, [])
        yield _part(landed, line_files(landed))


def _orders(data_set: DataSet, days: Collection[date], shares: Shares) -> Iterator[_FeedDay]:
    found = data_set.baskets(DayRange(min(days), max(days)))
    for landed in _landed(found, order_deliveries, days, shares, LONGEST_DAYS):
        yield _part(landed, {WHOLE: table_file(landed, ORDER)})


def _movements(data_set: DataSet, days: Collection[date], shares: Shares) -> Iterator[_FeedDay]:
    found = data_set.movements(DayRange(min(days), max(days)))
    for landed in _landed(found, movement_deliveries, days, shares):
        yield _part(landed, {WHOLE: table_file(landed, MOVEMENT)})


def _landed(
    found: Mapping[date, Sequence[Sent]],
    deliveries: Callable[[Sent, Shares], Iterator[Delivery]],
    days: Collection[date],
    shares: Shares,
    longest: int = MAX_DELAY_DAYS,
) -> Iterator[Sequence[Delivery]]:
    """What lands on each of the days, of all that was sent on them or up to `longest` before."""

    def deliveries_of(day: date) -> Iterator[Delivery]:
        for one in found.get(day, ()):
            yield from deliveries(one, shares)

    return (landed for _, landed in by_landing_day(deliveries_of, days, longest))


def _products(data_set: DataSet, days: Collection[date], shares: Shares) -> Iterator[_FeedDay]:
    products = data_set.products()
    for day in sorted(days):
        if day not in data_set.span:
            yield _FeedDay({})
            continue
        lines, rows, bad = catalogue_on(products, day, shares)
        yield _FeedDay({"part-0.jsonl": lines} if rows else {}, rows=rows, bad=bad)


_PARTS: Final[
    Mapping[FeedName, Callable[[DataSet, Collection[date], Shares], Iterator[_FeedDay]]]
] = {
    "events": _events,
    "users": _users,
    "orders": _orders,
    "inventory_movements": _movements,
    "products": _products,
}
