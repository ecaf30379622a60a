"""What a verification found: by day, by column, and what was not compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date


@dataclass(frozen=True, slots=True)
class DayCompared:
    """The rows of one day, in numbers.

    `compared` are those that either side has. `missing` ones the rebuild has and the table has
    not, `extra` ones the other way round; `different` ones have the same key and other values. A
    `day` of None is that of rows without one.
    """

    day: date | None
    compared: int = 0
    missing: int = 0
    extra: int = 0
    different: int = 0

    @property
    def differences(self) -> int:
        """All rows that are not the same on both sides."""
        return self.missing + self.extra + self.different


@dataclass(frozen=True, slots=True)
class Compared:
    """A table, or its quarantine, against the rebuild.

    `columns` counts per column the rows in which it differs; `examples` are at most five keys of
    rows that differ, each with what is wrong and its day. `not_judged` are rows of which the
    source no longer has anything.
    """

    days: tuple[DayCompared, ...] = ()
    columns: Mapping[str, int] = field(default_factory=dict)
    examples: tuple[str, ...] = ()
    not_judged: int = 0

    @property
    def rows(self) -> int:
        """How many rows were compared."""
        return sum(day.compared for day in self.days)

    @property
    def differences(self) -> int:
        """How many of them are not the same on both sides."""
        return sum(day.differences for day in self.days)


@dataclass(frozen=True, slots=True)
class Verified:
    """The result of verifying a table at its Delta `version`, as of its batch `batch`.

    `left_out` are the days that were not compared, each with the reason; `notes` is further text;
    `rebuilt` how many days of which tables were rebuilt (a loader's target counts as one).
    `seconds` is wall time.
    """

    table: str
    version: int
    batch: int
    rows: Compared = field(default_factory=Compared)
    quarantine: Compared = field(default_factory=Compared)
    left_out: Mapping[date, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    rebuilt: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def equal(self) -> bool:
        """Whether everything that was compared is the same."""
        return not self.differences

    @property
    def differences(self) -> int:
        """How many rows are not the same on both sides, quarantine included."""
        return self.rows.differences + self.quarantine.differences
