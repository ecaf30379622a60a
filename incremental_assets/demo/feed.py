"""The demo feed: what each transaction and each household sends, and when it lands. Pure.

Every choice (late or not, sent twice, damaged and how) is read off a hash of the row's own key.
So a day's bytes depend on the data and the shares alone: not on the range of days that is asked
for, not on a clock, and not on a random generator that runs from day to day.
"""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal
from hashlib import blake2b
from typing import Final

from incremental_assets.errors import DemoFeedError

MAX_DELAY_DAYS: Final = 3
"""No row lands later than this many days after its event, and neither does its copy."""

CHANGING_SHARE: Final = 0.1
"""The share of households whose income or size changes some weeks after their first day."""

INCOMES: Final = (
    "Under 15K",
    "15-24K",
    "25-34K",
    "35-49K",
    "50-74K",
    "75-99K",
    "100-124K",
    "125-149K",
    "150-174K",
    "175-199K",
    "200-249K",
    "250K+",
)
HOUSEHOLD_SIZES: Final = ("1", "2", "3", "4", "5+")

_SECOND: Final = timedelta(seconds=1)
_HOURS_IN_A_FILE: Final = 6
_LONGEST_LAG_SECONDS: Final = 300
_FOUR_DECIMALS: Final = Decimal("0.0001")


@dataclass(frozen=True)
class Shares:
    """How much goes wrong: each a share of the rows, from 0 to 1.

    late: lands one to three days after its event. duplicate: is sent twice. bad: breaks the
    contract. The three are drawn independently, except that a bad row is sent only once.
    """

    late: float = 0.01
    duplicate: float = 0.002
    bad: float = 0.001

    def __post_init__(self) -> None:
        for name in ("late", "duplicate", "bad"):
            share = getattr(self, name)
            if not 0 <= share <= 1:
                msg = f"The share of {name} rows is {share}; give a number from 0 to 1."
                raise DemoFeedError(msg)


@dataclass(frozen=True, slots=True)
class Transaction:
    """One product in one basket; a basket never names a product twice.

    `quantity` counts units (for fuel it is large), the amounts are US dollars for the whole line,
    `event_ts` is aware, in UTC, to the second.
    """

    household_id: int
    store_id: int
    basket_id: int
    product_id: int
    quantity: int
    sales_value: float
    retail_disc: float
    coupon_disc: float
    coupon_match_disc: float
    event_ts: datetime


@dataclass(frozen=True)
class Household:
    """A household whose demographics are known, and the UTC day of its first transaction."""

    household_id: int
    first_day: date
    demographics: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Delivery:
    """One line of a file. `lands_at` (UTC) decides the folder and the file that it is in."""

    lands_at: datetime
    line: str
    late: bool = False
    again: bool = False
    bad: bool = False


def event_deliveries(transaction: Transaction, shares: Shares) -> Iterator[Delivery]:
    """Yield the line of one transaction, and its second delivery if it has one.

    A row on time arrives within minutes and never after the end of its own day; a late one 1 to
    3 days later. The second delivery is an exact copy (the same day or the next) or, on the next
    day only, a correction: the same `order_id` with a later `arrival_ts` and another `qty`.
    """
    key = f"{transaction.basket_id}-{transaction.product_id}"
    to_late, to_duplicate, to_bad, delay_by, lag_by, copy_by, bad_by, at_by = _draw(key)
    late = _chosen(to_late, shares.late)
    delay = 1 + delay_by % MAX_DELAY_DAYS if late else 0
    if late:
        arrives = _midnight(transaction.event_ts.date() + timedelta(days=delay))
        arrives += at_by % 86_400 * _SECOND
    else:
        lag = (1 + lag_by % _LONGEST_LAG_SECONDS) * _SECOND
        arrives = _within_the_day_of(transaction.event_ts, lag)

    row = _event(key, transaction, arrives)
    if _chosen(to_bad, shares.bad):
        yield Delivery(arrives, _damaged(row, transaction, bad_by % 4), late=late, bad=True)
        return
    yield Delivery(arrives, _json(row), late=late)
    if not _chosen(to_duplicate, shares.duplicate):
        return
    if copy_by % 2 == 0 or delay == MAX_DELAY_DAYS:
        lands_at = _within_the_day_of(arrives, lag_by % 21_600 * _SECOND)
    else:
        lands_at = arrives + timedelta(days=1)
        if copy_by % 4 == 1:
            row = {**row, "qty": transaction.quantity + 1, "arrival_ts": _iso(lands_at)}
    yield Delivery(lands_at, _json(row), again=True)


def user_deliveries(household: Household, shares: Shares) -> Iterator[Delivery]:
    """Yield the versions of one household: its first, and for some a change weeks later.

    A version's `updated_at` is midnight UTC of its day; a late one lands a day after that.
    """
    key = f"household-{household.household_id}"
    to_late, to_change, change_late, weeks, days, what, *_ = _draw(key)
    attributes = household.demographics
    yield _user(household.household_id, attributes, household.first_day, to_late, shares)
    if not _chosen(to_change, CHANGING_SHARE):
        return
    scales = {"income": INCOMES, "household_size": HOUSEHOLD_SIZES}
    name = tuple(scales)[what % len(scales)]
    changed = {**attributes, name: _next_on(scales[name], attributes[name])}
    day = household.first_day + timedelta(weeks=3 + weeks % 7, days=days % 7)
    yield _user(household.household_id, changed, day, change_late, shares)


def events_by_landing_day(
    transactions_of: Callable[[date], Iterable[Transaction]],
    landing_days: Collection[date],
    shares: Shares,
) -> Iterator[Sequence[Delivery]]:
    """Yield what lands on each landing day, in their order; few days are in memory at once."""
    delays = [timedelta(days=delay) for delay in range(MAX_DELAY_DAYS + 1)]
    pending: defaultdict[date, list[Delivery]] = defaultdict(list)
    for day in sorted({landing_day - delay for landing_day in landing_days for delay in delays}):
        for transaction in transactions_of(day):
            for delivery in event_deliveries(transaction, shares):
                pending[delivery.lands_at.date()].append(delivery)
        arrived = pending.pop(day, [])
        if day in landing_days:
            yield arrived


def users_by_landing_day(
    households: Iterable[Household], shares: Shares
) -> dict[date, list[Delivery]]:
    """Return what the users feed lands, by landing day; days without a change are not in it."""
    by_day: defaultdict[date, list[Delivery]] = defaultdict(list)
    for household in households:
        for delivery in user_deliveries(household, shares):
            by_day[delivery.lands_at.date()].append(delivery)
    return dict(by_day)


def files(deliveries: Iterable[Delivery]) -> dict[str, bytes]:
    """Return the files of one landing day by name: UTF-8, a line each, four blocks of six hours.

    The order of the lines follows from the lines alone. A block without lines has no file.
    """
    lines: dict[str, list[str]] = {}
    for delivery in sorted(deliveries, key=lambda each: (each.lands_at, each.line)):
        name = f"part-{delivery.lands_at.hour // _HOURS_IN_A_FILE}.jsonl"
        lines.setdefault(name, []).append(delivery.line)
    return {name: ("\n".join(block) + "\n").encode() for name, block in lines.items()}


def _event(key: str, transaction: Transaction, arrives: datetime) -> dict[str, object]:
    return {
        "order_id": key,
        "user_id": str(transaction.household_id),
        "store_id": str(transaction.store_id),
        "product_id": str(transaction.product_id),
        "basket_id": str(transaction.basket_id),
        "qty": transaction.quantity,
        "unit_price": _unit_price(transaction),
        "retail_disc": round(transaction.retail_disc, 2),
        "coupon_disc": round(transaction.coupon_disc, 2),
        "coupon_match_disc": round(transaction.coupon_match_disc, 2),
        "event_ts": _iso(transaction.event_ts),
        "arrival_ts": _iso(arrives),
    }


def _unit_price(transaction: Transaction) -> float:
    """Return dollars per unit, to 4 decimals half up; the whole line's where nothing is counted.

    A float of so few digits prints as the very decimal that it was made from.
    """
    value = Decimal(str(round(transaction.sales_value, 2)))
    price = value / transaction.quantity if transaction.quantity else value
    return float(price.quantize(_FOUR_DECIMALS, ROUND_HALF_UP))


def _damaged(row: Mapping[str, object], transaction: Transaction, way: int) -> str:
    match way:
        case 0:
            return _json({**row, "order_id": None})
        case 1:
            return _json({**row, "unit_price": -_unit_price(transaction) or -0.01})
        case 2:
            return _json({**row, "qty": "two"})
        case _:
            line = _json(row)
            return line[: len(line) // 2]


def _user(
    household_id: int, attributes: Mapping[str, str | None], day: date, draw: int, shares: Shares
) -> Delivery:
    late = _chosen(draw, shares.late)
    updated_at = _midnight(day)
    row = {"user_id": str(household_id), **attributes, "updated_at": _iso(updated_at)}
    return Delivery(updated_at + timedelta(days=int(late)), _json(row), late=late)


def _next_on(scale: tuple[str, ...], value: str | None) -> str:
    """Return the value one step up the scale, or one down from its top."""
    step = scale.index(value) if value in scale else -1
    return scale[step + 1] if step + 1 < len(scale) else scale[step - 1]


def _draw(key: str) -> tuple[int, ...]:
    """Return eight 32-bit numbers that only the key decides, the same on every machine."""
    return struct.unpack("<8I", blake2b(key.encode(), digest_size=32).digest())


def _chosen(draw: int, share: float) -> bool:
    return draw < share * 2**32


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _within_the_day_of(moment: datetime, lag: timedelta) -> datetime:
    return min(moment + lag, _midnight(moment.date()) + timedelta(days=1) - _SECOND)


def _iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _json(row: Mapping[str, object]) -> str:
    return json.dumps(row, separators=(",", ":"))
