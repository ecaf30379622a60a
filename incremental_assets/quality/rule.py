"""Rules: named conditions on rows or on a day, each with a severity and an allowed share.

A row rule with severity `quarantine` quarantines the rows that fail it; with `warn` it only counts
them; with `fail` more of them than it allows hold the day. A day rule with `fail` holds its day.
Conditions are functions, because a Spark `Column` can be made only while there is a session.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType
from typing import Any, Literal

from pyspark.sql import Column, DataFrame

from incremental_assets.errors import DefinitionError

Severity = Literal["warn", "quarantine", "fail"]
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
HELPER = "_rule_"
"""The prefix of the columns that a rule adds for itself."""
# Reasons of rows that only came at the wrong time: they do not count to the share that holds a day.
APART = ("too_late", "too_early", "before_start")
LINE = "line_unreadable"
UNREADABLE = "_unreadable"


@dataclass(frozen=True, slots=True)
class DayCounts:
    """What a day rule judges: counts of one day.

    `rows` were read in this batch and `quarantined` of them quarantined. The totals are of all rows
    of the day so far, this batch included, without those whose only fault is their time
    (`too_late`, `too_early`, `before_start`). `files` (how many) and `empty_files` (their paths)
    are of this batch, and so is `measured`: what the rule asked to be measured over the batch's
    `measured_rows` good rows. `elsewhere` is what the rule asked another table for. `trailing` are
    the rows of the last loaded days before this one, newest first; `now` is the load's one reading
    of the clock.
    """

    rows: int
    quarantined: int
    total_rows: int
    total_quarantined: int
    files: int = 0
    empty_files: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    measured: Mapping[str, Any] = field(default_factory=dict)
    measured_rows: int = 0
    elsewhere: Mapping[str, Any] = field(default_factory=dict)
    trailing: Sequence[int] = ()
    day: date | None = None
    now: datetime | None = None

    @property
    def end(self) -> datetime:
        """The end of the day, or now, if the day is not over."""
        assert self.now is not None  # given wherever rules on days are asked
        if self.day is None:
            return self.now
        over = datetime(self.day.year, self.day.month, self.day.day, tzinfo=UTC) + timedelta(days=1)
        return min(over, self.now)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a day rule found: whether it passed, in words, and as a number with its threshold."""

    passed: bool
    found: str
    value: float
    threshold: float


@dataclass(frozen=True, slots=True)
class Scope:
    """Where rows are judged, for a rule that reads more than one row.

    `day` is the column that the rows are grouped by, and `key` that of their table. `read` gives a
    table of the lake, None before it was ever loaded; `present` the rows that the batch's days
    hold already, None where they are replaced or there are none.
    """

    day: str
    key: tuple[str, ...]
    read: Callable[[str], DataFrame | None]
    present: Callable[[], DataFrame | None]


@dataclass(frozen=True, slots=True)
class RowRule:
    """A condition that each row must meet; null counts as broken.

    `columns` are those that it reads, where they are known. `prepare` adds columns of its own to
    the rows, named `_rule_…`, for a condition that needs more than the row; `reads_table`
    names the table of the lake that it reads for that, if any. More rows than
    `rows_allowed`, and a larger share (0 to 1) of a day's than `share_allowed`, break the rule.
    """

    name: str
    description: str
    condition: Callable[[], Column]
    severity: Severity = "quarantine"
    columns: tuple[str, ...] = ()
    reads_table: str = ""
    prepare: Callable[[DataFrame, Scope], DataFrame] | None = None
    rows_allowed: int = 0
    share_allowed: float = 0.0
    owner: str = ""

    def __post_init__(self) -> None:
        _check_name(self.name)
        if self.name in APART or self.name.endswith(UNREADABLE):
            raise DefinitionError(
                f"Rule name {self.name!r}: the project itself gives the reason {self.name!r}, and "
                "rows with it are counted as such. Give the rule another name."
            )

    def allowing(self, rows: int = 0, share: float = 0.0) -> RowRule:
        """The rule, passed as long as at most so many rows, or that share of a day's, fail it.

        With severity `quarantine` the rows are quarantined all the same.
        """
        if rows < 0 or not 0 <= share < 1:
            raise DefinitionError(
                f"Rule {self.name} allows {rows} rows or a share of {share}; give a count from 0 "
                "or a share from 0 to below 1."
            )
        return replace(self, rows_allowed=rows, share_allowed=share)

    def passes(self, broken: int, rows: int) -> bool:
        """Whether so many broken rows of a day's are no more than is allowed."""
        return broken <= self.rows_allowed or (rows > 0 and broken / rows <= self.share_allowed)


@dataclass(frozen=True, slots=True)
class DayRule:
    """A condition on the counts of a day.

    `measures` are aggregates over the batch's good rows of the day, which the gate computes in its
    one pass; `columns` are those that they read. `elsewhere` are SQL aggregates over the same day
    of the table that `reads_table` names. With `of_volume` it judges all rows of the day so far, or
    those of the days before it.
    """

    name: str
    description: str
    judge: Callable[[DayCounts], Verdict]
    severity: Severity = "fail"
    measures: Mapping[str, Callable[[], Column]] = field(
        default_factory=lambda: MappingProxyType({}), hash=False
    )
    columns: tuple[str, ...] = ()
    of_volume: bool = False
    reads_table: str = ""
    elsewhere: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    owner: str = ""

    def __post_init__(self) -> None:
        _check_name(self.name)
        if self.severity == "quarantine":
            raise DefinitionError(
                f"Rule {self.name} judges a day, and a day cannot be quarantined; "
                "use fail(...) to hold the day or warn(...) to record it."
            )


Rule = RowRule | DayRule


def needs_lake(rule: Rule) -> bool:
    """Whether only a table of the lake can have the rule: it reads other rows, tables or days."""
    if isinstance(rule, RowRule):
        return rule.prepare is not None
    return rule.of_volume or bool(rule.measures)


def quarantine(*rules: RowRule, owner: str = "") -> tuple[RowRule, ...]:
    """These rules quarantine the rows that break them; the other rows go on."""
    _require_rules(rules)
    return tuple(replace(rule, severity="quarantine", owner=owner or rule.owner) for rule in rules)


def fail(*rules: Rule, owner: str = "") -> tuple[Rule, ...]:
    """These rules hold their day: nothing of the batch is published for it."""
    _require_rules(rules)
    return tuple(_as("fail", rule, owner) for rule in rules)


def warn(*rules: Rule, owner: str = "") -> tuple[Rule, ...]:
    """These rules are recorded and shown, and stop nothing."""
    _require_rules(rules)
    return tuple(_as("warn", rule, owner) for rule in rules)


def _as(severity: Severity, rule: Rule, owner: str) -> Rule:
    return replace(rule, severity=severity, owner=owner or rule.owner)


def _require_rules(rules: Sequence[object]) -> None:
    for rule in rules:
        if not isinstance(rule, Rule):
            raise DefinitionError(
                f"{rule!r} is no rule; build one, such as satisfies('price_ok', 'price >= 0')."
            )


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise DefinitionError(
            f"Rule name {name!r}: use letters, digits and underscores, beginning with a letter."
        )
