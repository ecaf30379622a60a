"""The truncates of a loader's log: which of them a load needs, and what they delete.

The ledger holds the position of the last one. A merge needs no other: older rows are
deleted, and an earlier truncate does not touch newer ones. SCD2 needs them all, for each ended the
versions that there were; they are in its side table, and are read where an event is older than the
last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.changes.detector import Detector
from incremental_assets.changes.request import ReadRequest
from incremental_assets.changes.truncates import (
    Digits,
    as_deletes,
    deletes_after,
    earlier_truncates,
    known_events,
    positions_of,
)
from incremental_assets.delta.columns import ORDER, REASONS, WITHIN
from incremental_assets.frames import Frames, quoted
from incremental_assets.quality.gate import Value
from incremental_assets.quality.reasons import is_good

_LAST, _ALL = "truncated", "truncates"  # in the state; the second as an earlier version wrote it


@dataclass(frozen=True, slots=True)
class Truncated:
    """The last truncate of a log, if there was one, and what a load has to do about truncates.

    `came` is whether the load brings some, `late` whether it brings an event that is older than the
    last one. `earlier` are those that an earlier version stored in the ledger.
    """

    last: Digits | None = None
    came: bool = False
    late: bool = False
    earlier: Sequence[Digits] = ()

    @classmethod
    def of(cls, state: Mapping[str, Any], found: Mapping[str, Any]) -> Truncated:
        """From the state of the last load, and the values found in the new events."""
        earlier = tuple((at, within) for at, within in state.get(_ALL, ()))
        known = [tuple(state[_LAST])] if _LAST in state else list(earlier)
        positions = [(Decimal(at), Decimal(within)) for at, within in known]
        came = found["last_truncate"] is not None
        if came:
            positions.append(_number(found["last_truncate"]))
        last = max(positions, default=None)
        first = found["first_event"]
        late = last is not None and first is not None and _number(first) < last
        digits = (f"{last[0]:f}", f"{last[1]:f}") if last is not None else None
        return cls(digits, came, late, earlier)

    @property
    def state(self) -> Mapping[str, Any]:
        """The state that the next load continues from."""
        return {_LAST: list(self.last)} if self.last is not None else {}

    @property
    def counts(self) -> int:
        """1 if the load may delete by a truncate."""
        return 1 if self.came or self.late else 0


def truncate_values(order: Sequence[str], number: Column) -> Mapping[str, Value]:
    """The values on truncates for the gate's aggregate; `number` is the order as a number."""
    within = F.col(WITHIN) if WITHIN in order else F.lit(0)
    position = F.struct(number.alias("at"), within.alias("within"))
    upsert = (F.col("_operation") == "upsert") & is_good()
    return {
        "last_truncate": Value(F.max(F.when(_is_truncate(), position)), _last),
        "first_event": Value(F.min(F.when(upsert, position)), _first),
    }


def with_truncates(
    frames: Frames,
    request: ReadRequest,
    rows: DataFrame,
    truncated: Truncated,
    detector: Detector,
) -> DataFrame:
    """The events that count, and the deletes that truncates make of them and of known ones.

    For SCD2 also the truncates themselves, for the side table.
    """
    row = F.col("_operation").isin("upsert", "delete")
    bad = ~is_good() & (F.col("_operation") == "truncate")
    good = rows.where(F.col("_operation").isNull() | row | bad)
    state, key = request.state, request.key
    history = state.write.keeps_versions
    if not (truncated.counts or (history and truncated.earlier)):
        return good
    assert truncated.last is not None
    session = frames.session
    order, position = rows.schema[ORDER].dataType, list(detector.order[:-1])
    if history:
        new = rows.where(_is_truncate()).select(*position)
        if truncated.earlier:
            new = new.unionByName(positions_of(session, truncated.earlier, order).select(*position))
        earlier = earlier_truncates(state.superseded(session), key, position)
        every = new if earlier is None else new.unionByName(_typed(earlier, rows, position))
    else:
        new = every = positions_of(session, [truncated.last], order).select(*position)
    upserts = good.where("_operation = 'upsert'")
    deletes = deletes_after(upserts, every.distinct(), key, detector.order)
    if truncated.came and state.version is not None:
        known = known_events(state.read(session), state.superseded(session), key, detector.order)
        deletes = deletes.unionByName(deletes_after(known, new.distinct(), key, detector.order))
    if history:
        no_key = {name: F.lit(None).cast(rows.schema[name].dataType) for name in key}
        deletes = deletes.unionByName(as_deletes(new.distinct().withColumns(no_key)))
    deletes = deletes.withColumn(REASONS, F.array().cast("array<string>"))
    return good.unionByName(deletes, allowMissingColumns=True)


def _typed(positions: DataFrame, rows: DataFrame, names: Sequence[str]) -> DataFrame:
    kinds = {name: rows.schema[name].dataType for name in names}
    return positions.select(*(F.col(quoted(n)).cast(kind).alias(n) for n, kind in kinds.items()))


def _is_truncate() -> Column:
    return (F.col("_operation") == "truncate") & is_good()


def _number(position: Any) -> tuple[Decimal, Decimal]:
    return Decimal(position["at"]), Decimal(position["within"] or 0)


def _last(positions: Sequence[Any]) -> Any:
    return max(positions, key=_number)


def _first(positions: Sequence[Any]) -> Any:
    return min(positions, key=_number)
