"""The log of the user table: households appear, change, and some are deleted. Pure.

Envelopes as Debezium writes them for Postgres. A change's position in the log follows from its
time, so that no event needs to know the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from incremental_assets.retail.feed.deliveries import (
    SECOND,
    Delivery,
    delayed,
    iso,
    line_of,
    midnight,
    within_the_day_of,
)
from incremental_assets.retail.feed.draws import Shares, chosen, draw

CHANGING_SHARE: Final = 0.2
"""The share of households whose income or size changes some weeks after their first day."""

DELETED_SHARE: Final = 0.05
"""The share of households that are deleted, some weeks later still."""

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

_EPOCH: Final = datetime(2017, 1, 1, tzinfo=UTC)
_HOUSEHOLDS: Final = 10_000  # more than there are
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Household:
    """A household whose demographics are known, and the UTC day of its first transaction."""

    household_id: int
    first_day: date
    demographics: Mapping[str, str | None]


def user_deliveries(household: Household, shares: Shares) -> Iterator[Delivery]:
    """Yield the events of one household: its first row, for some a change, for a few the end.

    It is created at midnight UTC of its first day. A late event lands 1 to 3 days after its
    change; a second delivery is a duplicate on the same day; a bad one is cut in half.
    """
    key = f"household-{household.household_id}"
    to_change, to_delete, weeks, days, what, when, *_ = draw(key)
    created = midnight(household.first_day)
    row = _row(household, household.demographics, created)
    yield from _event(household, "c", None, row, created, shares)
    if chosen(to_change, CHANGING_SHARE):
        scales = {"income": INCOMES, "household_size": HOUSEHOLD_SIZES}
        name = tuple(scales)[what % len(scales)]
        changed = {**household.demographics, name: _next_on(scales[name], row[name])}
        at = created + timedelta(weeks=3 + weeks % 7, days=days % 7, seconds=when % 86_400)
        before, row = row, _row(household, changed, at)
        yield from _event(household, "u", before, row, at, shares)
    if chosen(to_delete, DELETED_SHARE):
        at = created + timedelta(weeks=8 + days % 12, seconds=what % 86_400)
        at = max(at, midnight(household.first_day) + timedelta(weeks=11))
        yield from _event(household, "d", row, None, at, shares)


def users_by_landing_day(
    households: Iterable[Household], shares: Shares
) -> dict[date, list[Delivery]]:
    """Return what the log lands, by landing day; days without a change are not in it."""
    by_day: defaultdict[date, list[Delivery]] = defaultdict(list)
    for household in households:
        for delivery in user_deliveries(household, shares):
            by_day[delivery.lands_at.date()].append(delivery)
    return dict(by_day)


def _row(
    household: Household, attributes: Mapping[str, str | None], at: datetime
) -> dict[str, Any]:
    return {"user_id": str(household.household_id), **attributes, "updated_at": iso(at)}


def _event(
    household: Household,
    op: str,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    at: datetime,
    shares: Shares,
) -> Iterator[Delivery]:
    key = f"household-{household.household_id}-{op}"
    to_late, to_duplicate, to_bad, delay_by, at_by, again_by, *_ = draw(key)
    late = chosen(to_late, shares.late)
    lands_at = delayed(at, late=late, days=delay_by, at=at_by)
    position = int((at - _EPOCH) / SECOND) * _HOUSEHOLDS + household.household_id
    source = {
        "version": "3.0.0.Final",
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": _milliseconds(at),
        "snapshot": "false",
        "db": "shop",
        "schema": "public",
        "table": "users",
        "txId": position % 2**31,
        "lsn": position,
    }
    seen = _milliseconds(lands_at) + 400
    line = line_of({"before": before, "after": after, "source": source, "op": op, "ts_ms": seen})
    if chosen(to_bad, shares.bad):
        yield Delivery(lands_at, line[: len(line) // 2], late=late, bad=True)
        return
    yield Delivery(lands_at, line, late=late)
    if chosen(to_duplicate, shares.duplicate):
        yield Delivery(within_the_day_of(lands_at, again_by % 3600 * SECOND), line, again=True)


def _milliseconds(moment: datetime) -> int:
    return int((moment - datetime(1970, 1, 1, tzinfo=UTC)) / _MILLISECOND)


def _next_on(scale: tuple[str, ...], value: str | None) -> str:
    """Return the value one step up the scale, or one down from its top."""
    step = scale.index(value) if value in scale else -1
    return scale[step + 1] if step + 1 < len(scale) else scale[step - 1]
