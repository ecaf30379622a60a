"""What the lakehouse must contain, worked out anew from the landed files.

An oracle for tests: plain Python, no incremental state, no code in common with the package.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
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
    users: user_id, updated_at and the attributes as text, in the order of their names.
    mart: sales, total_price, user_updated_at and each attribute as user_<attribute>.
    daily_product_sales: dt, product_id, store_id, units, revenue, orders.
    held: the days of which too much was bad; sales, mart and daily_product_sales lack them.
    ties: orders with versions that differ and arrived last at the same time; `sales` has either.
    moved: orders whose versions disagree about the day; `sales` has the latest of all days.
    user_ties: users with two contents for one `updated_at`; `users` has the one landed last.
    """

    sales: pl.DataFrame
    quarantined: pl.DataFrame
    users: pl.DataFrame
    mart: pl.DataFrame
    daily_product_sales: pl.DataFrame
    held: frozenset[date]
    ties: frozenset[str]
    moved: frozenset[str]
    user_ties: frozenset[str]


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


@dataclass(frozen=True, slots=True)
class User:
    """One version of a user."""

    user_id: str
    updated_at: datetime
    attributes: Mapping[str, str | None]


Judged = tuple[date, Sale | str]
"""The verdict on one line: the day that judges it, and a sale or the reason against it."""


def truth_of(
    landing: Path, start: date, landing_days: Sequence[date], lateness_days: int = 7
) -> Truth:
    """Read these landing days of `events` and `users` below `landing` and say what must be true.

    `start` is the first business day. A row whose business day is before its landing day by more
    than `lateness_days`, or after it by more than one, is set aside.
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
    users, user_ties = _users(landing, days)
    users_table = _users_table(users)
    mart = _mart(sales, users, users_table.columns[2:])
    return Truth(
        sales=mart.select(_COLUMNS),
        quarantined=pl.DataFrame(reasons, _QUARANTINED, orient="row"),
        users=users_table,
        mart=mart,
        daily_product_sales=_daily_product_sales(mart),
        held=held,
        ties=frozenset(order_id for order_id, tied in latest.items() if len(set(tied)) > 1),
        moved=frozenset(order_id for order_id, its_days in days_of.items() if len(its_days) > 1),
        user_ties=user_ties,
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


def _judge(row: dict[str, Any], landing_day: date, start: date, lateness: timedelta) -> Judged:
    event_ts = _moment(row.get("event_ts"))
    if event_ts is None:
        return landing_day, BAD
    business_day = event_ts.date()
    if landing_day - business_day > lateness:
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


def _users(landing: Path, days: Sequence[date]) -> tuple[dict[str, list[User]], frozenset[str]]:
    """Return each user's versions by `updated_at`, and the users of whom two contradict."""
    found: dict[tuple[str, datetime], User] = {}
    ties: set[str] = set()
    for row in (row for day in days for row in _rows(landing / "users" / f"{day}")):
        user_id, updated_at = _text(row.pop("user_id", None)), _moment(row.pop("updated_at", None))
        if user_id is None or not user_id.strip() or updated_at is None:
            continue
        user = User(user_id, updated_at, {name: _text(value) for name, value in row.items()})
        if found.get((user_id, updated_at), user) != user:
            ties.add(user_id)
        found[user_id, updated_at] = user
    by_user: defaultdict[str, list[User]] = defaultdict(list)
    for key in sorted(found):
        by_user[key[0]].append(found[key])
    return dict(by_user), frozenset(ties)


def _users_table(users: Mapping[str, Sequence[User]]) -> pl.DataFrame:
    key: dict[str, Any] = {"user_id": pl.String, "updated_at": _UTC_TIME}
    rows = [
        {"user_id": user.user_id, "updated_at": user.updated_at, **user.attributes}
        for versions in users.values()
        for user in versions
    ]
    names = sorted({name for row in rows for name in row} - key.keys())
    return pl.DataFrame(rows, {**key, **dict.fromkeys(names, pl.String)})


def _mart(
    sales: Sequence[Sale], users: Mapping[str, Sequence[User]], names: Sequence[str]
) -> pl.DataFrame:
    rows = []
    for sale in sales:
        user = _version_at(users.get(sale.user_id or "", ()), sale.event_ts)
        known = (user.updated_at, *map(user.attributes.get, names)) if user else ()
        missing = (None,) * (1 + len(names) - len(known))
        rows.append((*_values_of(sale), sale.qty * sale.unit_price, *known, *missing))
    added = {"total_price": pl.Decimal(38, 4), "user_updated_at": _UTC_TIME}
    texts = dict.fromkeys((f"user_{name}" for name in names), pl.String)
    columns = {**dict(zip(_COLUMNS, _TYPES, strict=True)), **added, **texts}
    return pl.DataFrame(rows, columns, orient="row")


def _version_at(versions: Sequence[User], moment: datetime) -> User | None:
    """Return the version that held at a moment; before the first one, the first."""
    count = bisect_right(versions, moment, key=lambda user: user.updated_at)
    return versions[max(count - 1, 0)] if versions else None


def _daily_product_sales(mart: pl.DataFrame) -> pl.DataFrame:
    """Sum the mart; decimals are added as integers, so exactly."""
    key = ("dt", "product_id", "store_id")
    units = pl.col("qty").cast(pl.Int64).sum()
    revenue, orders = pl.col("total_price").sum(), pl.len().cast(pl.Int64)
    return mart.group_by(key).agg(units=units, revenue=revenue, orders=orders).sort(key)


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
