"""What the tables of sales must contain, computed from the landed files.

An oracle for tests: plain Python, no incremental state, no code in common with the package.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import polars as pl

BAD: Final = "bad"
TOO_LATE: Final = "too_late"
TOO_EARLY: Final = "too_early"
BEFORE_START: Final = "before_start"

_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,9})?", re.ASCII)
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?", re.ASCII)
_UTC_TIME: Final = pl.Datetime("us", "UTC")
_QUARANTINED: Final = {"day": pl.Date, "reason_family": pl.String}


@dataclass(frozen=True)
class Truth:
    """The tables, each sorted by its key; all times are UTC in microseconds.

    sales: dt, order_id, user_id, store_id, product_id, qty, unit_price, event_ts, arrival_ts.
    quarantined: day, reason_family; a row for each line held back, copies included.
    daily_product_sales: dt, product_id, store_id, units, revenue, orders.
    held: the days of which too much was bad; the tables lack them.
    ties: orders with versions that differ and arrived last at the same time; `sales` has either.
    moved: orders whose versions disagree about the day; `sales` has the latest of all days.
    """

    sales: pl.DataFrame
    quarantined: pl.DataFrame
    daily_product_sales: pl.DataFrame
    held: frozenset[date]
    ties: frozenset[str]
    moved: frozenset[str]


@dataclass(frozen=True, slots=True)
class Sale:
    """A good row, typed: a row of `Truth.sales`."""

    dt: date
    order_id: str
    user_id: str | None
    store_id: str | None
    product_id: str | None
    qty: int
    unit_price: Decimal
    event_ts: datetime
    arrival_ts: datetime | None


_COLUMNS: Final = tuple(field.name for field in fields(Sale))
_TEXTS, _TIMES = [pl.String] * 4, [_UTC_TIME] * 2
_TYPES: Final[tuple[Any, ...]] = (pl.Date, *_TEXTS, pl.Int32, pl.Decimal(18, 4), *_TIMES)
_values_of: Final = attrgetter(*_COLUMNS)


Judged = tuple[date, Sale | str]
"""The verdict on one line: the day that judges it, and a sale or the reason against it."""


def truth_of(
    landing: Path, start: date, landing_days: Sequence[date], lateness_days: int = 7
) -> Truth:
    """Read these landing days of `events` below `landing` and say what must be true.

    `start` is the first business day. A row whose business day is before its landing day by more
    than `lateness_days`, or after it by more than one, is quarantined.
    """
    days = sorted(set(landing_days))
    judged = [
        _judge(row, day, start, timedelta(days=lateness_days))
        for day in days
        for row in _rows(landing / "events" / f"{day}")
    ]
    held = _held_days(judged)
    versions: defaultdict[str, list[Sale]] = defaultdict(list)
    days_of: defaultdict[str, set[date]] = defaultdict(set)
    for day, verdict in judged:
        if isinstance(verdict, Sale):
            days_of[verdict.order_id].add(day)
            if day not in held:
                versions[verdict.order_id].append(verdict)
    latest = {order_id: _latest(sales) for order_id, sales in versions.items()}
    sales = [latest[order_id][0] for order_id in sorted(latest)]
    reasons = sorted((day, verdict) for day, verdict in judged if isinstance(verdict, str))
    types = dict(zip(_COLUMNS, _TYPES, strict=True))
    table = pl.DataFrame([_values_of(sale) for sale in sales], types, orient="row")
    return Truth(
        sales=table,
        quarantined=pl.DataFrame(reasons, _QUARANTINED, orient="row"),
        daily_product_sales=_daily_product_sales(sales),
        held=held,
        ties=frozenset(order_id for order_id, tied in latest.items() if len(set(tied)) > 1),
        moved=frozenset(order_id for order_id, its_days in days_of.items() if len(its_days) > 1),
    )


def _rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the object of each line that is not blank; an empty one for what is no object."""
    for file in sorted(folder.rglob("*")):
        names = file.relative_to(folder).parts
        if file.is_file() and not any(name.startswith(("_", ".")) for name in names):
            with file.open(encoding="utf-8", errors="replace") as lines:
                yield from (_object(line) for line in lines if line.strip())


def _not_json(constant: str) -> None:
    raise ValueError(constant)


_JSON: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=_not_json)


def _object(line: str) -> dict[str, Any]:
    try:
        value = _JSON.decode(line)
    except (ValueError, ArithmeticError):
        return {}
    return value if isinstance(value, dict) else {}


def _judge(
    row: dict[str, Any], landing_day: date, start: date, allowed_lateness: timedelta
) -> Judged:
    event_ts = _moment(row.get("event_ts"))
    if event_ts is None:
        return landing_day, BAD
    business_day = event_ts.date()
    if landing_day - business_day > allowed_lateness:
        return landing_day, TOO_LATE
    if business_day - landing_day > timedelta(days=1):
        return landing_day, TOO_EARLY
    if business_day < start:
        return landing_day, BEFORE_START
    return business_day, _sale(row, event_ts) or BAD


def _sale(row: dict[str, Any], event_ts: datetime) -> Sale | None:
    order_id, qty = _text(row.get("order_id")), _qty(row.get("qty"))
    unit_price = _price(row.get("unit_price"))
    if order_id is None or not order_id.strip():
        return None
    if qty is None or qty < 0 or unit_price is None or unit_price < 0:
        return None
    return Sale(
        dt=event_ts.date(),
        order_id=order_id,
        user_id=_text(row.get("user_id")),
        store_id=_text(row.get("store_id")),
        product_id=_text(row.get("product_id")),
        qty=qty,
        unit_price=unit_price,
        event_ts=event_ts,
        arrival_ts=_moment(row.get("arrival_ts")),
    )


def _held_days(judged: Sequence[Judged]) -> frozenset[date]:
    bad = Counter(day for day, verdict in judged if verdict == BAD)
    good = Counter(day for day, verdict in judged if isinstance(verdict, Sale))
    return frozenset(day for day in bad if 20 * bad[day] > bad[day] + good[day])  # over 5 %


def _latest(versions: Sequence[Sale]) -> list[Sale]:
    """Return the versions that arrived last; a missing arrival is before any other."""
    never = datetime.min.replace(tzinfo=UTC)
    last = max(sale.arrival_ts or never for sale in versions)
    return [sale for sale in versions if (sale.arrival_ts or never) == last]


def _daily_product_sales(sales: Sequence[Sale]) -> pl.DataFrame:
    found: dict[tuple[Any, ...], list[Any]] = {}
    for sale in sales:
        sums = found.setdefault((sale.dt, sale.product_id, sale.store_id), [0, Decimal(0), 0])
        sums[0] += sale.qty
        sums[1] += sale.qty * sale.unit_price
        sums[2] += 1
    names = {"dt": pl.Date, "product_id": pl.String, "store_id": pl.String}
    measures = {"units": pl.Int64, "revenue": pl.Decimal(38, 4), "orders": pl.Int64}
    rows = [(*key, *sums) for key, sums in found.items()]
    return pl.DataFrame(rows, {**names, **measures}, orient="row").sort(*names)


def _text(value: Any) -> str | None:
    """Return text as it is, anything else as its JSON."""
    if isinstance(value, str | Decimal):
        return str(value)
    return None if value is None else json.dumps(value, default=str)


def _moment(value: Any) -> datetime | None:
    """Read ISO 8601, as UTC unless an offset is given."""
    if not isinstance(value, str) or not _MOMENT.fullmatch(value.strip()):
        return None
    try:
        moment = datetime.fromisoformat(value.strip())
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def _number(value: Any) -> Decimal | None:
    text = str(value).strip()
    readable = isinstance(value, str | int | Decimal) and _NUMBER.fullmatch(text)
    return Decimal(text) if readable else None


def _qty(value: Any) -> int | None:
    number = _number(value)
    in_range = number is not None and -(2**31) <= number < 2**31
    return int(number) if number is not None and in_range and number % 1 == 0 else None


def _price(value: Any) -> Decimal | None:
    """Read a number as decimal(18,4), half up; None where it needs more digits."""
    number = _number(value)
    if number is None or not -(10**14) < number < 10**14:
        return None
    price = number.quantize(Decimal("0.0001"), ROUND_HALF_UP)
    return price if -(10**14) < price < 10**14 else None
