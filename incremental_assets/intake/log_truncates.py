"""The truncates of a loader's log: which of them a load has to look at, and what they delete.

The ledger holds the place of the last one. A row that is merged needs no other: what is older is
gone, and what is newer no truncate before it touches. A history needs them all, for each ended the
versions that there were; they lie beside the target, and are read where an event is older than the
last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.frames import quoted
from incremental_assets.intake.gate import is_good
from incremental_assets.intake.intake import ORDER, WITHIN, Intake
from incremental_assets.intake.target import Target
from incremental_assets.intake.truncates import (
    Digits,
    as_deletes,
    deletes_after,
    known_events,
    places_of,
    truncates_beside,
)

_LAST, _ALL = "truncated", "truncates"  # in the state; the second as an earlier version wrote it


@dataclass(frozen=True, slots=True)
class Truncated:
    """The last truncate of a log, if there was one, and what a load has to do about truncates.

    `came` is whether the load brings some, `late` whether it brings an event that is older than the
    last one. `earlier` are those that an earlier version kept in the ledger.
    """

    last: Digits | None = None
    came: bool = False
    late: bool = False
    earlier: Sequence[Digits] = ()

    @classmethod
    def of(cls, state: Mapping[str, Any], found: Mapping[str, Any]) -> Truncated:
        """From what the last load left, and what is found in the new events."""
        earlier = tuple((at, within) for at, within in state.get(_ALL, ()))
        known = [tuple(state[_LAST])] if _LAST in state else list(earlier)
        places = [(Decimal(at), Decimal(within)) for at, within in known]
        came = found["last_truncate"] is not None
        if came:
            places.append(_number(found["last_truncate"]))
        last = max(places, default=None)
        first = found["first_event"]
        late = last is not None and first is not None and _number(first) < last
        digits = (f"{last[0]:f}", f"{last[1]:f}") if last is not None else None
        return cls(digits, came, late, earlier)

    @property
    def state(self) -> Mapping[str, Any]:
        """What the next load goes on from."""
        return {_LAST: list(self.last)} if self.last is not None else {}

    @property
    def counts(self) -> int:
        """1 if the load may delete by a truncate."""
        return 1 if self.came or self.late else 0


def truncate_values(intake: Intake, number: Column) -> Mapping[str, Column]:
    """What the gate's aggregate finds of truncates; `number` is the order as one."""
    within = F.col(WITHIN) if WITHIN in intake.order else F.lit(0)
    place = F.struct(number.alias("at"), within.alias("within"))
    upsert = (F.col("_operation") == "upsert") & is_good()
    return {
        "last_truncate": F.max(F.when(_is_truncate(), place)),
        "first_event": F.min(F.when(upsert, place)),
    }


def with_truncates(
    session: SparkSession, intake: Intake, target: Target, rows: DataFrame, truncated: Truncated
) -> DataFrame:
    """The events that count, and the deletes that truncates make of them and of known ones.

    For a history also the truncates themselves, to be kept beside the target.
    """
    row = F.col("_operation").isin("upsert", "delete")
    aside = ~is_good() & (F.col("_operation") == "truncate")
    good = rows.where(F.col("_operation").isNull() | row | aside)
    history = intake.write.keeps_versions
    if not (truncated.counts or (history and truncated.earlier)):
        return good
    assert truncated.last is not None
    order, place = rows.schema[ORDER].dataType, list(intake.order[:-1])
    if history:
        new = rows.where(_is_truncate()).select(*place)
        if truncated.earlier:
            new = new.unionByName(places_of(session, truncated.earlier, order).select(*place))
        beside = truncates_beside(session, intake, target, place)
        every = new if beside is None else new.unionByName(_typed(beside, rows, place))
    else:
        new = every = places_of(session, [truncated.last], order).select(*place)
    deletes = deletes_after(good.where("_operation = 'upsert'"), every.distinct(), intake)
    if truncated.came and target.version is not None:
        known = known_events(session, intake, target)
        deletes = deletes.unionByName(deletes_after(known, new.distinct(), intake))
    if history:
        nobody = {name: F.lit(None).cast(rows.schema[name].dataType) for name in intake.key}
        deletes = deletes.unionByName(as_deletes(new.distinct().withColumns(nobody)))
    return good.unionByName(deletes, allowMissingColumns=True)


def _typed(places: DataFrame, rows: DataFrame, names: Sequence[str]) -> DataFrame:
    kinds = {name: rows.schema[name].dataType for name in names}
    return places.select(*(F.col(quoted(n)).cast(kind).alias(n) for n, kind in kinds.items()))


def _is_truncate() -> Column:
    return (F.col("_operation") == "truncate") & is_good()


def _number(place: Any) -> tuple[Decimal, Decimal]:
    return Decimal(place["at"]), Decimal(place["within"] or 0)
