"""New rows by a cursor: a timestamp or a sequence that the rows of a source carry."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.changes.by_sequence import Progress, Sequence
from incremental_assets.changes.by_timestamp import Timestamp
from incremental_assets.changes.watermark import Nulls, Seen, as_text, instant, instant_at, number
from incremental_assets.errors import SourceError
from incremental_assets.frames import persisted, quoted
from incremental_assets.intake.found import Found, Position
from incremental_assets.intake.gate import Judged, judge, with_reasons
from incremental_assets.intake.intake import HASH, ORDER, Intake
from incremental_assets.intake.progress import next_step, progress_from, state_of_progress
from incremental_assets.intake.rows import (
    instant_of,
    number_of,
    own_types,
    require_columns,
    require_no_lines,
    unseen,
    with_order,
)
from incremental_assets.intake.target import Target
from incremental_assets.sources.stored import FixedSource


@contextmanager
def new_by_timestamp(
    session: SparkSession,
    intake: Intake,
    fixed: FixedSource,
    changes: Timestamp,
    target: Target,
    now: datetime,
) -> Iterator[Found | None]:
    """The rows at or above the watermark that are not loaded yet; None where there are none.

    Raises SourceError for a null timestamp where `nulls` is `raise`.
    """
    before = target.position(Position("timestamp", changes.column, intake.start))
    watermark = instant(before.high)
    low = changes.read_from(watermark)
    limit = now + changes.max_clock_skew
    with fixed.rows(session, target.known_types()) as source:
        own = own_types(source)
        if not own:  # a source without a file has no columns, either
            require_no_lines(intake, source)
            yield None
            return
        require_columns(intake, own, (changes.column, *intake.key, *intake.partition_by))
        every = with_order(source, own, instant_of(changes.column, own[changes.column]))
        cursor = F.col(ORDER)
        # What a target holds that was filled by other means, up to its watermark, is not known.
        above = cursor > F.lit(low) if target.last is None else cursor >= F.lit(low)
        window = every if low is None else every.where(cursor.isNull() | above)
        ahead = F.coalesce(cursor > F.lit(limit), F.lit(False))
        in_future = f"{changes.column}_in_future"
        reasons = [_null_reason(changes.column, changes.nulls)]
        if changes.future == "quarantine":
            reasons.append(F.when(ahead, F.lit(in_future)))
        with persisted(window) as candidates:
            # A quarantined row whose time has come is read again; before that it is known.
            new = unseen(candidates, target.known_rows(session, low, but_for=in_future))
            quarantined = target.set_aside(session)
            if quarantined and changes.future == "quarantine":
                still_ahead = unseen(new.where(ahead), quarantined)
                new = new.where(~ahead).unionByName(still_ahead)
            new = target.without_beaten(session, new, low)
            with persisted(_bounded(new, intake, reasons)) as rows:
                micros = F.unix_micros(ORDER)
                values = _counted(changes.column, F.when(~ahead, micros))
                values["ahead"] = F.count_if(ahead)
                judged = judge(rows, intake.name, intake.rules, values)
                _refuse_nulls(intake, changes.column, changes.nulls, judged)
                _refuse_unreadable(intake, changes.column, "ISO 8601", target, judged)
                if not judged.rows:
                    yield None
                    return
                seen = _seen(judged, now, instant_at)
                after = as_text(changes.advanced(watermark, seen))
                notes = list(judged.notes)
                if judged.values["ahead"]:
                    notes.append(_ahead(changes, judged, limit))

                def whole(day: str, days: Collection[Any]) -> DataFrame:
                    # A cursor's day as a whole: its rows, new or not.
                    of_days = every.where(_among(day, days))
                    return with_reasons(of_days, intake.key, intake.rules, reasons)

                yield Found(
                    rows,
                    own,
                    Position("timestamp", changes.column, after),
                    judged.rows,
                    judged.quarantined,
                    notes=tuple(notes),
                    whole=whole,
                )


@contextmanager
def new_by_sequence(
    session: SparkSession,
    intake: Intake,
    fixed: FixedSource,
    changes: Sequence,
    target: Target,
    now: datetime,
) -> Iterator[Found | None]:
    """The rows above the watermark and in open gaps; None where nothing changed.

    Raises SourceError for a null number where `nulls` is `raise`, and for a gap where `on_gap` is
    `fail`.
    """
    before = target.position(Position("sequence", changes.column, intake.start))
    progress = progress_from(before.state, number(before.high))
    with fixed.rows(session, target.known_types()) as source:
        own = own_types(source)
        if not own:
            require_no_lines(intake, source)
            yield None
            return
        require_columns(intake, own, (changes.column, *intake.key, *intake.partition_by))
        every = with_order(source, own, number_of(changes.column, own[changes.column]))
        cursor = F.col(ORDER)
        wanted, certain = _windows(changes, progress, number(before.high))
        reasons = [_null_reason(changes.column, changes.nulls)]
        with persisted(every.where(wanted)) as candidates:
            again = candidates.where(~F.coalesce(certain, F.lit(False)))
            known = target.known_rows(session, None) if before.high else target.set_aside(session)
            rest = target.without_beaten(session, unseen(again, known), None)
            new = candidates.where(certain).unionByName(rest)
            with persisted(_bounded(new, intake, reasons)) as bounded:
                decided = next_step(changes, progress, bounded, ORDER, now, intake.name)
                rows = bounded
                if decided.stop is not None:
                    rows = bounded.where(cursor.isNull() | (cursor <= decided.stop))
                judged = judge(rows, intake.name, intake.rules, _counted(changes.column, cursor))
                _refuse_nulls(intake, changes.column, changes.nulls, judged)
                _refuse_unreadable(intake, changes.column, "a whole number", target, judged)
                after, high = decided.after, decided.after.high
                if not judged.rows and after == progress:
                    yield None
                    return
                if _own_watermark(changes):
                    high = changes.advanced(number(before.high), _seen(judged, now, int))

                def whole(day: str, days: Collection[Any]) -> DataFrame:
                    of_days = every.where(_among(day, days))
                    if decided.stop is not None:
                        of_days = of_days.where(cursor.isNull() | (cursor <= decided.stop))
                    return with_reasons(of_days, intake.key, intake.rules, reasons)

                yield Found(
                    rows,
                    own,
                    Position(
                        "sequence", changes.column, as_text(high), state_of_progress(after, high)
                    ),
                    judged.rows,
                    judged.quarantined,
                    notes=(*judged.notes, *decided.notes),
                    whole=whole,
                )


def _own_watermark(changes: Sequence) -> bool:
    return changes.watermark is not None or type(changes) is not Sequence


def _windows(changes: Sequence, progress: Progress, watermark: int | None) -> tuple[Column, Column]:
    """Which rows may be new, and which of them certainly are."""
    cursor = F.col(ORDER)
    if progress.high is None or watermark is None:
        return F.lit(True), cursor.isNotNull()
    gaps = [cursor.between(low, high) for low, high in progress.gaps]
    new = reduce(Column.__or__, gaps, cursor > progress.high)
    low = min(watermark, progress.high) - changes.lookback
    return cursor.isNull() | (cursor > low) | new, new


def _bounded(new: DataFrame, intake: Intake, reasons: list[Column]) -> DataFrame:
    if intake.max_records is not None:
        new = new.orderBy(F.col(ORDER).asc_nulls_first(), HASH).limit(intake.max_records)
    return with_reasons(new, intake.key, intake.rules, reasons)


def _null_reason(name: str, nulls: Nulls) -> Column:
    """Text that is no value of the cursor's kind is set aside, whatever becomes of nulls."""
    gone = F.col(ORDER).isNull()
    unreadable = F.when(gone & F.col(quoted(name)).isNotNull(), F.lit(f"{name}_unreadable"))
    if nulls == "include":
        return unreadable
    return F.coalesce(unreadable, F.when(gone, F.lit(f"{name}_null")))


def _counted(name: str, value: Column) -> dict[str, Column]:
    unreadable = F.col("_raw").isNotNull() | F.array_contains("_unreadable", name)
    gone = F.col(ORDER).isNull()
    return {
        "nulls": F.count_if(gone & F.col(quoted(name)).isNull() & ~unreadable),
        "odd": F.min(F.when(gone, F.col(quoted(name)).cast("string"))),
        "lowest": F.min(value),
        "highest": F.max(value),
    }


def _refuse_nulls(intake: Intake, column: str, nulls: Nulls, judged: Judged) -> None:
    if nulls == "raise" and judged.values["nulls"]:
        raise SourceError(
            f"{intake.name}: {judged.values['nulls']} of {judged.rows} new rows have no {column}, "
            f"so nobody can say whether they are new ({intake.source.path}). Nothing was loaded "
            "and the watermark did not move; repair them, or say nulls='quarantine' to set them "
            "aside or nulls='include' to load each of them once."
        )


def _refuse_unreadable(
    intake: Intake, column: str, expected: str, target: Target, judged: Judged
) -> None:
    """Raise SourceError for a first load that cannot read a single cursor: all would go aside."""
    odd, none = judged.values["odd"], judged.values["highest"] is None
    first = target.last is None and intake.max_records is None  # with a bound, odd ones come first
    if first and odd is not None and none and not judged.values.get("ahead"):
        raise SourceError(
            f"{intake.name}: not one value of {column} is {expected}, such as {odd[:60]!r} "
            f"({intake.source.path}). Nothing was loaded; convert the column at the source, or "
            "name another one."
        )


def _seen(judged: Judged, now: datetime, value: Callable[[Any], Any]) -> Seen:
    found = (judged.values[end] for end in ("lowest", "highest"))
    low, high = (None if each is None else value(each) for each in found)
    return Seen(low, high, judged.rows, now)


def _ahead(changes: Timestamp, judged: Judged, limit: datetime) -> str:
    done = "set aside" if changes.future == "quarantine" else "loaded"
    return (
        f"{judged.values['ahead']} rows have a {changes.column} beyond {limit.isoformat()}: they "
        f"were {done}, and do not move the watermark"
    )


def _among(day: str, days: Collection[Any]) -> Column:
    column = F.col(quoted(day))
    found = column.isin([each for each in days if each is not None])
    return found | column.isNull() if None in days else found
