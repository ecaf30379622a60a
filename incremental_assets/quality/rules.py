"""Rules as values: a named condition on rows or on a day's delivery, with a severity.

A row rule with severity `quarantine` sets the rows aside that break it; with `warn` it only counts
them; with `fail` one such row holds the day. A day rule with `fail` holds its day. Conditions are
functions, because a Spark `Column` can be made only while a session is there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F

from incremental_assets.errors import DefinitionError

Severity = Literal["warn", "quarantine", "fail"]
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class DayCounts:
    """What a day rule judges: counts of one day.

    `rows` were read in this batch and `quarantined` of them set aside. The totals are of all rows
    of the day so far, this batch included, without those whose only fault is their time
    (`too_late`, `too_early`, `before_start`). `files` and `empty_files` are of this batch.
    """

    rows: int
    quarantined: int
    total_rows: int
    total_quarantined: int
    files: int = 0
    empty_files: int = 0
    differences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a day rule found: whether it passed, in words, and as a number with its threshold."""

    passed: bool
    found: str
    value: float
    threshold: float


@dataclass(frozen=True, slots=True)
class RowRule:
    """A condition that each row must meet; null counts as broken."""

    name: str
    description: str
    condition: Callable[[], Column]
    severity: Severity = "quarantine"

    def __post_init__(self) -> None:
        _check_name(self.name)


@dataclass(frozen=True, slots=True)
class DayRule:
    """A condition on the counts of a day."""

    name: str
    description: str
    judge: Callable[[DayCounts], Verdict]
    severity: Severity = "fail"

    def __post_init__(self) -> None:
        _check_name(self.name)
        if self.severity == "quarantine":
            raise DefinitionError(
                f"Rule {self.name} judges a day, and a day cannot be quarantined; "
                "use fail(...) to hold the day or warn(...) to record it."
            )


Rule = RowRule | DayRule


def quarantine(*rules: RowRule) -> tuple[RowRule, ...]:
    """These rules set aside the rows that break them; the other rows go on."""
    return tuple(replace(rule, severity="quarantine") for rule in rules)


def fail(*rules: Rule) -> tuple[Rule, ...]:
    """These rules hold their day: nothing of the batch is published for it."""
    return tuple(replace(rule, severity="fail") for rule in rules)


def warn(*rules: Rule) -> tuple[Rule, ...]:
    """These rules are recorded and shown, and stop nothing."""
    return tuple(replace(rule, severity="warn") for rule in rules)


def not_null(column: str) -> RowRule:
    """The column is there; a blank string is no value either."""
    return RowRule(
        f"{column}_not_null",
        f"{column} is neither null nor blank.",
        lambda: F.col(column).isNotNull() & F.col(column).cast("string").rlike(r"\S"),
    )


def at_least(column: str, least: int) -> RowRule:
    """The column is not below `least`; null is the business of `not_null`."""
    sign = "minus_" if least < 0 else ""
    return RowRule(
        f"{column}_at_least_{sign}{abs(least)}",
        f"{column} is not below {least}.",
        lambda: F.col(column).isNull() | (F.col(column) >= F.lit(least)),
    )


def quarantined_share(at_most: float, fewest: int = 1) -> DayRule:
    """At most this share (0 to 1) of a day's rows, of all so far, is in quarantine.

    Fewer rows than `fewest` hold no day: of a log with ten events a day one is a tenth.
    """

    def judge(day: DayCounts) -> Verdict:
        share = day.total_quarantined / day.total_rows if day.total_rows else 0.0
        return Verdict(
            share <= at_most or day.total_quarantined < fewest,
            f"{day.total_quarantined} of {day.total_rows} rows ({share:.2%}) are in quarantine, "
            f"at most {at_most:.2%} may be",
            share,
            at_most,
        )

    return DayRule(
        "quarantined_share",
        f"At most {at_most:.0%} of a day's rows are in quarantine"
        + (f", or fewer than {fewest}" if fewest > 1 else "")
        + "; rows that are only too late or too early do not count.",
        judge,
    )


def rows_delivered() -> DayRule:
    """A landing day that has files has at least one row."""

    def judge(day: DayCounts) -> Verdict:
        return Verdict(
            day.files == 0 or day.rows > 0,
            f"{day.rows} rows in {day.files} files",
            day.rows,
            1,
        )

    return DayRule("rows_delivered", "A landing day that has files has at least one row.", judge)


def no_empty_files() -> DayRule:
    """None of the landed files is empty (of zero bytes)."""

    def judge(day: DayCounts) -> Verdict:
        return Verdict(
            day.empty_files == 0,
            f"{day.empty_files} of {day.files} files are empty",
            day.empty_files,
            0,
        )

    return DayRule("no_empty_files", "No landed file is empty.", judge)


def reconciles() -> DayRule:
    """The day's sums and row counts equal those of what it was made from."""

    def judge(day: DayCounts) -> Verdict:
        found = "; ".join(day.differences) or "equal"
        return Verdict(not day.differences, found, len(day.differences), 0)

    return DayRule(
        "reconciles", "The day's row count and sums equal those of its upstream table.", judge
    )


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise DefinitionError(
            f"Rule name {name!r}: use letters, digits and underscores, beginning with a letter."
        )
