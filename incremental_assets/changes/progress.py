"""How far a sequence was read, its gaps, and the step that a load may take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol

from pyspark.sql import DataFrame

from incremental_assets.changes.ranges import contiguous_ranges
from incremental_assets.errors import SourceError

Range = tuple[int, int]  # both ends included
SHOWN = 5


class GapPolicy(Protocol):
    """How gaps in the numbers of a `column` are treated, as `Sequence` defines it."""

    @property
    def column(self) -> str: ...
    @property
    def on_gap(self) -> Literal["report", "wait", "fail"]: ...
    @property
    def deadline(self) -> timedelta: ...
    @property
    def most_gaps(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sequence was read: the highest number, the open gaps below it, and what waits."""

    high: int | None = None
    gaps: tuple[Range, ...] = ()
    waiting_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class SequenceStep:
    """What a load may take: numbers up to `stop`, the progress after it, and what to report."""

    stop: int | None
    after: Progress
    notes: tuple[str, ...] = field(default=())


def step(
    detector: GapPolicy, before: Progress, ranges: Iterable[Range], now: datetime, table: str
) -> SequenceStep:
    """Decide how far to go, from the ranges of numbers that are there (both ends included).

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
            "again when the rows are there, or let gaps pass with on_gap='report'."
        )
    since = None
    if new_gaps and detector.on_gap == "wait":
        since = before.waiting_since or now
        if now - since < detector.deadline:
            stop = new_gaps[0][0] - 1
            nothing = before.high is None and stop < start + 1
            high = before.high if nothing or stop < start else stop
            note = (
                f"{detector.column} waits since {since.isoformat()} for {_shown(new_gaps[:1])}; "
                f"what comes after is loaded when it fills, or after {detector.deadline}"
            )
            return SequenceStep(stop, Progress(high, tuple(open_gaps), since), (note,))
        since = None
    notes = [f"{detector.column} has gaps: {_shown(new_gaps)}"] if new_gaps else []
    remembered = [*open_gaps, *new_gaps]
    forgotten = remembered[: -detector.most_gaps] if detector.most_gaps else remembered
    if forgotten:
        notes.append(
            f"{detector.column}: {len(forgotten)} old gaps are given up: {_shown(forgotten)}"
        )
    high = top if above else before.high
    return SequenceStep(
        None, Progress(high, tuple(remembered[len(forgotten) :]), since), tuple(notes)
    )


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
    since = state.get("waiting_since")
    waiting = datetime.fromisoformat(since) if since else None
    return Progress(state.get("top", high), gaps, waiting)


def state_of_progress(progress: Progress, watermark: int | None) -> dict[str, Any]:
    """The progress as state for the ledger; fields that equal the watermark are left out."""
    state: dict[str, Any] = {}
    if watermark != progress.high:
        state["top"] = progress.high
    if progress.gaps:
        state["gaps"] = [list(gap) for gap in progress.gaps]
    if progress.waiting_since:
        state["waiting_since"] = progress.waiting_since.isoformat()
    return state


def next_step(
    changes: GapPolicy, before: Progress, rows: DataFrame, column: str, now: datetime, table: str
) -> SequenceStep:
    """How far a load may go, given the numbers in a column of `rows`.

    Raises SourceError for a gap where `on_gap` is `fail`, and for a column that is no sequence.
    """
    there, dense = contiguous_ranges(rows, column)
    return step(changes, before, there, now, table) if dense else _sparse(changes, before, there)


def _sparse(changes: GapPolicy, before: Progress, there: list[tuple[int, int]]) -> SequenceStep:
    if changes.on_gap != "report":
        raise SourceError(
            f"{changes.column} has so many gaps that it is no sequence; with on_gap="
            f"{changes.on_gap!r} nothing can be loaded. Use on_gap='report'."
        )
    low, high = there[0]
    top = high if before.high is None else max(high, before.high)
    note = f"{changes.column} has too many gaps from {low} to {high} to remember them; none is"
    return SequenceStep(None, Progress(top, before.gaps), (note,))
