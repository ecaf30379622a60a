"""Change detector for sources whose rows carry an ever-growing number, each number once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar, Literal

from incremental_assets.changes.detector import Detector
from incremental_assets.changes.watermark import Advance, Nulls, Seen, checked, furthest
from incremental_assets.errors import DefinitionError, SourceError

Range = tuple[int, int]  # both ends included
SHOWN = 5


@dataclass(frozen=True)
class Sequence(Detector):
    """Rows above the highest number read so far, and those that fill a gap below it.

    Numbers that are missing between others are a gap: of a row that is still to come, or that
    never will. `report` remembers an open gap and loads its rows when they come; `wait` stops
    the watermark before the gap until it fills or `deadline` has passed since it was seen; `fail`
    refuses to load. At most `most_gaps` are remembered, the newest; what is given up is reported.
    The first number of the first load opens the sequence. `lookback` reads again so many numbers
    below the watermark, for rows that were written with a number that was given out before.

    `watermark` and `next_watermark` are as for `Timestamp`.
    """

    name: ClassVar[str] = "sequence"

    column: str
    on_gap: Literal["report", "wait", "fail"] = "report"
    nulls: Nulls = "raise"
    deadline: timedelta = timedelta(hours=1)
    most_gaps: int = 1000
    lookback: int = 0
    watermark: Advance | None = None

    def __post_init__(self) -> None:
        if self.on_gap not in ("report", "wait", "fail"):
            raise DefinitionError(
                f"Sequence({self.column!r}): on_gap is report, wait or fail, not {self.on_gap!r}."
            )

    def next_watermark(self, before: int | None, seen: Seen) -> int | None:
        """The watermark after a load; between the one before and the highest that was seen."""
        found: int | None = (self.watermark or furthest)(before, seen)
        return found

    def advanced(self, before: int | None, seen: Seen) -> int | None:
        """The next watermark, checked. Raises WatermarkError."""
        after: int | None = checked(self.column, before, self.next_watermark(before, seen), seen)
        return after


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sequence was read: the highest number, the open gaps below it, and what waits."""

    high: int | None = None
    gaps: tuple[Range, ...] = ()
    waiting_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """What a load may take: numbers up to `stop`, the progress after it, and what to report."""

    stop: int | None
    after: Progress
    notes: tuple[str, ...] = field(default=())


def step(
    detector: Sequence, before: Progress, islands: Iterable[Range], now: datetime, table: str
) -> Step:
    """Decide how far to go, from the runs of numbers that are there (both ends included).

    Raises SourceError for a gap where `on_gap` is `fail`.
    """
    present = merged(islands)
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
            return Step(stop, Progress(high, tuple(open_gaps), since), (note,))
        since = None
    notes = [f"{detector.column} has gaps: {_shown(new_gaps)}"] if new_gaps else []
    remembered = [*open_gaps, *new_gaps]
    given_up = remembered[: -detector.most_gaps] if detector.most_gaps else remembered
    if given_up:
        notes.append(
            f"{detector.column}: {len(given_up)} old gaps are given up: {_shown(given_up)}"
        )
    high = top if above else before.high
    return Step(None, Progress(high, tuple(remembered[len(given_up) :]), since), tuple(notes))


def merged(ranges: Iterable[Range]) -> list[Range]:
    """The same numbers in the min_rows ranges, in order."""
    found: list[Range] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found


def without(ranges: Iterable[Range], taken: Iterable[Range]) -> list[Range]:
    """What is left of ranges when others are taken out."""
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
