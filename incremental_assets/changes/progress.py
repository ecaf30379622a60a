"""How far a sequence was read, its gaps, and the step that a load may take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import reduce
from typing import Any, Literal, Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.changes.ranges import contiguous_ranges
from incremental_assets.errors import SourceError
from incremental_assets.plurals import counted

Range = tuple[int, int]  # both ends included
SHOWN = 5
_ENDLESS = 10**38
_MOST_BITS = 63


class GapPolicy(Protocol):
    """How gaps in the numbers of a `column` are treated, as `Sequence` defines it."""

    @property
    def column(self) -> str: ...
    @property
    def on_gap(self) -> Literal["report", "wait", "fail"]: ...
    @property
    def deadline(self) -> timedelta: ...
    @property
    def max_gaps(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sequence was read: the highest number, and the open gaps below it.

    `waiting` are those above it that are waited for, in order.
    """

    high: int | None = None
    gaps: tuple[Range, ...] = ()
    waiting: tuple[Waiting, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class Waiting:
    """Numbers above the watermark, both ends included, and when they were first missing."""

    low: int
    high: int
    since: datetime


@dataclass(frozen=True, slots=True)
class SequenceStep:
    """What a load may take: numbers up to `stop`, the progress after it, and what to report."""

    stop: int | None
    after: Progress
    notes: tuple[str, ...] = field(default=())


def step(
    detector: GapPolicy, before: Progress, ranges: Iterable[Range], now: datetime, table: str
) -> SequenceStep:
    """Decide how far to go, from the ranges of numbers that were read (both ends included).

    Raises SourceError for a gap where `on_gap` is `fail`.
    """
    present = merged(ranges)
    above = [r for r in present if before.high is None or r[1] > before.high]
    first = above[0][0] if above and before.high is None else None
    start = before.high if before.high is not None else (first - 1 if first is not None else 0)
    top = above[-1][1] if above else start
    new_gaps = without([(start + 1, top)], present) if above else []
    open_gaps = without(before.gaps, present)
    if new_gaps and detector.on_gap == "fail":
        raise SourceError(
            f"{table}: {detector.column} has gaps: {_shown(new_gaps)}. Nothing was loaded; load "
            "again when the rows have arrived, or let gaps pass with on_gap='report'."
        )
    stop: int | None = None
    waiting: list[Waiting] = []
    notes: list[str] = []
    if new_gaps and detector.on_gap == "wait":
        seen = _first_seen(new_gaps, before.waiting, now)
        held = [gap for gap in seen if now - gap.since < detector.deadline]
        if held:
            first_held = held[0]
            stop = top = first_held.low - 1
            new_gaps = without(new_gaps, [(first_held.low, new_gaps[-1][1])])
            waiting = [gap for gap in seen if gap.low > stop]
            notes.append(
                f"{detector.column} waits since {first_held.since.isoformat()} for "
                f"{_shown([(first_held.low, first_held.high)])}; what comes after is loaded when "
                f"it fills, or after {detector.deadline}"
            )
    if new_gaps:
        notes.append(f"{detector.column} has gaps: {_shown(new_gaps)}")
    remembered = [*open_gaps, *new_gaps]
    forgotten = remembered[: -detector.max_gaps] if detector.max_gaps else remembered
    if forgotten:
        notes.append(
            f"{detector.column}: {counted(len(forgotten), 'old gap')} no longer remembered: "
            f"{_shown(forgotten)}"
        )
    high = top if above else before.high
    after = Progress(high, tuple(remembered[len(forgotten) :]), _few(waiting, detector.max_gaps))
    return SequenceStep(stop, after, tuple(notes))


def _first_seen(gaps: Sequence[Range], before: Sequence[Waiting], now: datetime) -> list[Waiting]:
    """The gaps, cut into parts by when they were first missing."""
    known = [
        Waiting(max(low, gap.low), min(high, gap.high), gap.since)
        for gap in before
        for low, high in gaps
        if low <= gap.high and gap.low <= high
    ]
    new = without(gaps, [(gap.low, gap.high) for gap in known])
    return sorted([*known, *(Waiting(low, high, now) for low, high in new)])


def _few(waiting: Sequence[Waiting], most: int) -> tuple[Waiting, ...]:
    """At most so many: one, seen when the first of them was, replaces all further ones."""
    if len(waiting) <= max(most, 1):
        return tuple(waiting)
    rest = waiting[max(most, 1) - 1 :]
    one = Waiting(rest[0].low, rest[-1].high, min(gap.since for gap in rest))
    return (*waiting[: max(most, 1) - 1], one)


def merged(ranges: Iterable[Range]) -> list[Range]:
    """The same numbers in as few ranges as possible, in order."""
    found: list[Range] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found


def without(ranges: Iterable[Range], taken: Iterable[Range]) -> list[Range]:
    """The ranges without the numbers of others."""
    left: list[Range] = []
    holes = merged(taken)
    for low, high in merged(ranges):
        at = low
        for hole_low, hole_high in holes:
            if hole_high < at:
                continue
            if hole_low > high:
                break
            if hole_low > at:
                left.append((at, hole_low - 1))
            at = hole_high + 1
        if at <= high:
            left.append((at, high))
    return left


def _shown(ranges: Iterable[Range]) -> str:
    every = list(ranges)
    texts = [str(low) if low == high else f"{low}…{high}" for low, high in every[:SHOWN]]
    more = f" and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return ", ".join(texts) + more


def progress_from(state: Mapping[str, Any], high: int | None) -> Progress:
    """The progress in a detector's state; `high` where the state names no number of its own."""
    gaps = tuple((low, top) for low, top in state.get("gaps", ()))
    top = state.get("top", high)
    waiting = [
        Waiting(low, up_to, datetime.fromisoformat(since))
        for low, up_to, since in state.get("waiting", ())
    ]
    if not waiting and "waiting_since" in state:  # an older version knew of one gap
        since = datetime.fromisoformat(state["waiting_since"])
        waiting.append(Waiting((top or 0) + 1, _ENDLESS, since))
    return Progress(top, gaps, tuple(waiting))


def state_of_progress(progress: Progress, watermark: int | None) -> dict[str, Any]:
    """The progress as state for the ledger; fields that equal the watermark are left out."""
    state: dict[str, Any] = {}
    if watermark != progress.high:
        state["top"] = progress.high
    if progress.gaps:
        state["gaps"] = [list(gap) for gap in progress.gaps]
    if progress.waiting:
        state["waiting_since"] = progress.waiting[0].since.isoformat()
        state["waiting"] = [[w.low, w.high, w.since.isoformat()] for w in progress.waiting]
    return state


def whole(number: int) -> Column:
    """A whole number as a literal, of whatever size."""
    return F.lit(number if number.bit_length() <= _MOST_BITS else Decimal(number))


def next_step(
    changes: GapPolicy, before: Progress, rows: DataFrame, column: str, now: datetime, table: str
) -> SequenceStep:
    """How far a load may go, given the numbers in a column of `rows`.

    Raises SourceError for a gap where `on_gap` is `fail`, and for a column that is no sequence.
    """
    there, dense = contiguous_ranges(rows, column)
    if dense:
        return step(changes, before, there, now, table)
    filled: list[Range] = []
    if before.gaps:  # what came of them is loaded, and must not be once more
        number = F.col(column)
        inside = reduce(Column.__or__, (number.between(*map(whole, gap)) for gap in before.gaps))
        filled, _ = contiguous_ranges(rows.where(inside), column)
    return _sparse(changes, before, there, without(before.gaps, filled))


def _sparse(
    changes: GapPolicy, before: Progress, there: Sequence[Range], open_gaps: Sequence[Range]
) -> SequenceStep:
    if changes.on_gap != "report":
        raise SourceError(
            f"{changes.column} has so many gaps that it is no sequence; with on_gap="
            f"{changes.on_gap!r} nothing can be loaded. Use on_gap='report'."
        )
    low, high = there[0]
    top = high if before.high is None else max(high, before.high)
    note = f"{changes.column} has too many gaps from {low} to {high} to remember them; none is"
    return SequenceStep(None, Progress(top, tuple(open_gaps)), (note,))
