"""Rules that judge a day as a whole: its delivery, its volume, its shares, its sums."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from statistics import median
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from incremental_assets.errors import DefinitionError
from incremental_assets.frames import quoted
from incremental_assets.plurals import are, counted
from incremental_assets.quality.expressions import require_aggregate
from incremental_assets.quality.rule import DayCounts, DayRule, Verdict

_MOST_NAMED = 3
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def quarantined_share(at_most: float, min_rows: int = 1) -> DayRule:
    """At most this share (0 to 1) of a day's rows, of all so far, is in quarantine.

    Fewer rows than `min_rows` hold no day: of a log with ten events a day one is a tenth.
    """
    if not 0 <= at_most < 1:
        raise DefinitionError(f"quarantined_share({at_most}): give a share from 0 to below 1.")

    def judge(day: DayCounts) -> Verdict:
        share = day.total_quarantined / day.total_rows if day.total_rows else 0.0
        return Verdict(
            share <= at_most or day.total_quarantined < min_rows,
            f"{day.total_quarantined:,} of {counted(day.total_rows, 'row')} ({share:.2%}) "
            f"{are(day.total_quarantined)} in quarantine, at most {at_most:.2%} may be",
            share,
            at_most,
        )

    return DayRule(
        "quarantined_share",
        f"At most {at_most:.0%} of a day's rows are in quarantine"
        + (f", or fewer than {min_rows}" if min_rows > 1 else "")
        + "; rows that are only too late or too early do not count.",
        judge,
    )


def rows_delivered() -> DayRule:
    """A landing day that has files has at least one row."""

    def judge(day: DayCounts) -> Verdict:
        return Verdict(
            day.files == 0 or day.rows > 0,
            f"{counted(day.rows, 'row')} in {counted(day.files, 'file')}",
            day.rows,
            1,
        )

    return DayRule("rows_delivered", "A landing day that has files has at least one row.", judge)


def no_empty_files() -> DayRule:
    """None of the landed files is empty (of zero bytes)."""

    def judge(day: DayCounts) -> Verdict:
        empty = day.empty_files
        more = ["…"] if len(empty) > _MOST_NAMED else []
        names = ", ".join([*empty[:_MOST_NAMED], *more])
        text = f"{len(empty):,} of {counted(day.files, 'file')} {are(len(empty))} empty"
        return Verdict(not empty, f"{text}: {names}" if empty else text, len(empty), 0)

    return DayRule("no_empty_files", "No landed file is empty.", judge)


def reconciles() -> DayRule:
    """The day's sums and row counts equal those of what it was made from."""

    def judge(day: DayCounts) -> Verdict:
        found = "; ".join(day.differences) or "equal"
        return Verdict(not day.differences, found, len(day.differences), 0)

    return DayRule(
        "reconciles", "The day's row count and sums equal those of its upstream table.", judge
    )


def reconciles_with(
    table: str, sums: Mapping[str, tuple[str, str]], within: float = 0.0
) -> DayRule:
    """A gold day's sums equal those of the same day (`dt`) of another table of the lake.

    `sums` gives SQL aggregates of either side by name: `{"value": ("sum(total_price)",
    "sum(amount)")}`. They may differ by the share `within` of the other table's (0.01: a
    hundredth). The table is looked up as it is when the day is judged, and is loaded first; a day
    that it does not have is 0.
    """
    if not sums or not 0 <= within < 1:
        raise DefinitionError(
            f"reconciles_with({table!r}, …): name at least one sum, and a share from 0 to below 1."
        )
    if not table.startswith(("silver/", "gold/")):
        raise DefinitionError(
            f"reconciles_with({table!r}, …): only silver and gold tables have rows by business "
            "day; name one, such as 'silver/control_totals'."
        )
    for name, (ours, theirs) in sums.items():
        for sql in (ours, theirs):
            require_aggregate(f"reconciles_with({table!r}, …), {name}", sql)

    def judge(day: DayCounts) -> Verdict:
        worst, differences = 0.0, []
        for name in sums:
            got, expected = (Decimal(side.get(name) or 0) for side in (day.measured, day.elsewhere))
            apart = abs(got - expected)
            share = float(apart / abs(expected)) if expected else float(apart > 0)
            worst = max(worst, share)
            if share > within:
                differences.append(f"{name} is {got}, {table} has {expected} ({share:.2%} apart)")
        return Verdict(not differences, "; ".join(differences) or "equal enough", worst, within)

    exact = "decimal(38,4)"
    return DayRule(
        f"reconciles_with_{table.replace('/', '_')}",
        f"A day's {', '.join(sums)} differ by at most {within:.1%} from those of {table}.",
        judge,
        measures={
            name: partial(_sql, f"CAST({ours} AS {exact})") for name, (ours, _) in sums.items()
        },
        reads_table=table,
        elsewhere={name: f"CAST({theirs} AS {exact})" for name, (_, theirs) in sums.items()},
    )


def _sql(text: str) -> Column:
    return F.expr(text)


def row_count(at_least: int = 0, at_most: int | None = None) -> DayRule:
    """The day, with all rows so far, has a number of rows in these bounds, both included."""
    if at_least < 0 or (at_most is not None and at_most < at_least):
        raise DefinitionError(f"row_count({at_least}, {at_most}): the bounds are reversed.")
    bounds = f"at least {at_least:,}" if at_most is None else f"{at_least:,} to {at_most:,}"

    def judge(day: DayCounts) -> Verdict:
        enough = day.total_rows >= at_least
        passed = enough and (at_most is None or day.total_rows <= at_most)
        threshold = at_least if at_most is None or not enough else at_most
        return Verdict(
            passed,
            f"{counted(day.total_rows, 'row')}, {bounds} expected",
            day.total_rows,
            threshold,
        )

    return DayRule("row_count", f"A day has {bounds} rows.", judge, of_volume=True)


def usual_row_count(within: float, days: int = 28, min_days: int = 7) -> DayRule:
    """The day's rows are near the median of the last loaded days before it, as the ledger has them.

    `within` is the share of the median by which they may differ (0.5: half to one and a half times
    as many). With fewer than `min_days` days to compare with, nothing is judged. One odd day
    among them does not move a median.
    """
    if not within > 0 or not 0 < min_days <= days:
        raise DefinitionError(
            f"usual_row_count({within}, {days}, {min_days}): give a share above 0, and no more "
            "min_days than days."
        )

    def judge(day: DayCounts) -> Verdict:
        before, rows = day.trailing[:days], counted(day.total_rows, "row")
        if len(before) < min_days:
            text = f"{rows}; {counted(len(before), 'day')} before it, too few to compare"
            return Verdict(True, text, 0.0, within)
        usual = median(before)
        apart = abs(day.total_rows - usual) / usual if usual else float(day.total_rows > 0)
        of = "day's" if len(before) == 1 else "days'"
        text = f"{rows}, {apart:.0%} off the {len(before)} {of} median of {usual:,.10g}"
        return Verdict(apart <= within, text, apart, within)

    return DayRule(
        "usual_row_count",
        f"A day's rows differ by at most {within:.0%} from the median of the "
        f"{counted(days, 'day')} before.",
        judge,
        of_volume=True,
    )


def null_share(column: str, at_most: float, min_rows: int = 20) -> DayRule:
    """At most this share (0 to 1) of the good rows of a batch's day has no value in the column.

    Fewer rows than `min_rows` are not judged: of a late slice with three rows one is a third.
    """
    if not 0 <= at_most < 1:
        raise DefinitionError(f"null_share({column!r}, {at_most}): give a share from 0 to below 1.")

    def judge(day: DayCounts) -> Verdict:
        nulls = int(day.measured.get("nulls") or 0)
        share = nulls / day.measured_rows if day.measured_rows else 0.0
        of = f"{nulls:,} of {counted(day.measured_rows, 'row')} ({share:.2%})"
        have = "has" if nulls == 1 else "have"
        passed = share <= at_most or day.measured_rows < min_rows
        return Verdict(
            passed, f"{of} {have} no {column}, at most {at_most:.2%} may", share, at_most
        )

    return DayRule(
        f"{column}_null_share",
        f"At most {at_most:.0%} of a day's rows have no {column}.",
        judge,
        measures={"nulls": lambda: F.count_if(F.col(quoted(column)).isNull())},
        columns=(column,),
    )


def distinct_count(column: str, at_least: int = 0, at_most: int | None = None) -> DayRule:
    """How many different values the good rows of a batch's day have in the column."""
    if at_least < 0 or (at_most is not None and at_most < at_least):
        raise DefinitionError(f"distinct_count({column!r}, …): the bounds are reversed.")
    bounds = f"at least {at_least}" if at_most is None else f"{at_least} to {at_most}"

    def judge(day: DayCounts) -> Verdict:
        found = int(day.measured.get("values") or 0)
        enough = found >= at_least
        passed = not day.measured_rows or (enough and (at_most is None or found <= at_most))
        threshold = at_least if at_most is None or not enough else at_most
        return Verdict(passed, f"{found} values of {column}, {bounds} expected", found, threshold)

    return DayRule(
        f"{column}_distinct_count",
        f"A day's rows have {bounds} different values of {column}.",
        judge,
        measures={"values": lambda: F.count_distinct(F.col(quoted(column)))},
        columns=(column,),
    )


def fresh(column: str, within: timedelta) -> DayRule:
    """The newest row of a day is at most so much older than the day's end, or than now."""
    if within <= timedelta(0):
        raise DefinitionError(f"fresh({column!r}, {within}): give a span above 0.")

    def judge(day: DayCounts) -> Verdict:
        newest = _moment(day.measured.get("newest"))
        if newest is None:
            return Verdict(
                not day.measured_rows, f"no row has a value of {column}", 0.0, _hours(within)
            )
        age = day.end - newest
        text = f"the newest {column} is {newest:%Y-%m-%d %H:%M}, {_hours(age):.1f} h before the end"
        return Verdict(age <= within, text, _hours(age), _hours(within))

    return DayRule(
        f"{column}_fresh",
        f"The newest {column} of a day is at most {within} before its end, or before now.",
        judge,
        measures={
            "newest": lambda: F.unix_micros(F.max(F.col(quoted(column)).try_cast("timestamp_ltz")))
        },
        columns=(column,),
    )


def _moment(micros: Any) -> datetime | None:
    """The instant, or the nearest that Python knows."""
    if micros is None:
        return None
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return (datetime.max if micros > 0 else datetime.min).replace(tzinfo=UTC)


def _hours(span: timedelta) -> float:
    return span.total_seconds() / 3600
