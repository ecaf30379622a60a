"""A table: what it is, what it reads, and what it promises. Everything a reader asks about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from pyspark.sql import DataFrame

from incremental_assets.changes.by_log import ChangeLog
from incremental_assets.changes.by_sequence import Sequence as SequenceChanges
from incremental_assets.changes.by_snapshot import SnapshotDiff
from incremental_assets.changes.by_timestamp import Timestamp
from incremental_assets.changes.files import Files
from incremental_assets.errors import DefinitionError
from incremental_assets.lake.history import VALIDITY
from incremental_assets.lake.strategy import Append, History, Merge, ReplaceDay
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.gate import structural_rules
from incremental_assets.quality.rules import RowRule, Rule
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.stored_feed import Stored

Layer = Literal["bronze", "silver", "gold"]
Transform = Callable[..., DataFrame]
_NAME = re.compile(r"(bronze|silver|gold)/[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class ByDay:
    """Read the rows of the same day of an upstream table."""

    table: Table


@dataclass(frozen=True, slots=True)
class AsOf:
    """Look up the version of `table` that was valid when a row of the fact happened.

    `key` is the column that both share, `at` the fact's timestamp and `valid_from` the version's.
    Before the first version the first one holds.
    """

    table: Table
    key: str
    at: str
    valid_from: str


Read = LandedFiles | Stored | ByDay | AsOf
Detector = Files | Timestamp | SequenceChanges | ChangeLog | SnapshotDiff


@dataclass(frozen=True, slots=True)
class Sums:
    """What a gold table must agree on with its upstream: SQL of either side, by name.

    `{"revenue": ("sum(qty * unit_price)", "sum(total_price)")}`; row counts always count when
    `rows` is true.
    """

    sums: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    rows: bool = True


@dataclass(frozen=True)
class Table:
    """One table of the lake.

    `name` is `layer/table`. `key` and `order_by` say which rows are versions of one thing and
    which version is the later one. `day` is the timestamp whose UTC date is the business day,
    declared unchanging for a key; None partitions by the landing day instead. `lateness` is how
    long after its business day a row may land ("default": the setting; None: for ever).
    `changes` says how the source of a bronze table tells what is new, and so what its rows mean
    to the silver table above it: with a change log or full copies, inserts, updates and deletes.
    `transform` is a pure function from the frames that are read to the rows that are written.
    """

    name: str
    description: str
    reads: tuple[Read, ...]
    write: Append | Merge | History | ReplaceDay
    key: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()
    day: str | None = None
    lateness: timedelta | Literal["default"] | None = None
    changes: Detector = field(default_factory=Files)
    schema: Contract | None = None
    rules: tuple[Rule, ...] = ()
    sums: Sums | None = None
    transform: Transform | None = None
    owners: tuple[str, ...] = ("team:data",)
    code_version: str = "1"

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise DefinitionError(
                f"Table name {self.name!r}: expected bronze/…, silver/… or gold/… in lower case."
            )
        names = [rule.name for rule in self.rules]
        if len(set(names)) != len(names):
            raise DefinitionError(f"{self.name}: two rules have the same name: {sorted(names)}.")
        if self.layer == "bronze":
            _check_source(self)
        elif not isinstance(self.changes, Files):
            raise DefinitionError(
                f"{self.name}: changes is {self.changes!r}; inside the lake what is new is told by "
                "batches. Give it to the bronze table that reads the source."
            )
        elif self.is_typed:
            _check_typed(self)
        elif not isinstance(self.write, ReplaceDay):
            raise DefinitionError(
                f"{self.name}: what is made of typed tables is made anew by day; use ReplaceDay()."
            )

    @property
    def layer(self) -> Layer:
        """bronze, silver or gold."""
        layer, _, _ = self.name.partition("/")
        return layer  # type: ignore[return-value]  # the name was checked against the three

    @property
    def feed(self) -> LandedFiles | None:
        """The landed feed that the table reads, if it is a bronze table."""
        return next((read for read in self.reads if isinstance(read, LandedFiles)), None)

    @property
    def stored(self) -> Stored | None:
        """The stored source that the table reads, if it is a bronze table."""
        return next((read for read in self.reads if isinstance(read, Stored)), None)

    @property
    def landing_column(self) -> str | None:
        """The column of a stored source whose date is a row's landing day."""
        if self.stored is None:
            return None
        cursor = self.changes.column if isinstance(self.changes, Timestamp) else None
        return self.stored.day or cursor

    @property
    def files(self) -> Files:
        """How files are told apart, where the source is files."""
        return self.changes if isinstance(self.changes, Files) else Files()

    @property
    def is_typed(self) -> bool:
        """Whether the table types what bronze holds."""
        return self.facts is not None and self.facts.layer == "bronze"

    @property
    def log(self) -> ChangeLog | SnapshotDiff | None:
        """The change log or the full copies whose events this table makes into rows."""
        facts = self.facts
        found = facts.changes if facts is not None and self.is_typed else None
        return found if isinstance(found, ChangeLog | SnapshotDiff) else None

    @property
    def upstreams(self) -> Sequence[ByDay | AsOf]:
        """The tables that it reads, in the order of the transform's arguments."""
        return [read for read in self.reads if isinstance(read, ByDay | AsOf)]

    @property
    def facts(self) -> Table | None:
        """The upstream whose days are this table's days."""
        return next((read.table for read in self.reads if isinstance(read, ByDay)), None)

    def lateness_in(self, default: timedelta) -> timedelta | None:
        """How long after its business day a row may land; None: for ever."""
        return default if self.lateness == "default" else self.lateness

    @property
    def row_rules(self) -> Sequence[RowRule]:
        """The rules on rows."""
        return [rule for rule in self.rules if isinstance(rule, RowRule)]

    def checks(self) -> Mapping[str, tuple[str, bool]]:
        """Every check of the table: its description, and whether it blocks."""
        found = {rule.name: (rule.description, rule.severity == "fail") for rule in self.rules}
        if self.is_typed:
            structural = structural_rules()
            found |= {name: (text, False) for name, text in structural.items()}
        return found


def _check_source(table: Table) -> None:
    name, changes = table.name, table.changes
    if len(table.reads) != 1 or not (table.feed or table.stored):
        raise DefinitionError(f"{name}: a bronze table reads one LandedFiles(…) or Stored(…).")
    if not isinstance(table.write, Append):
        raise DefinitionError(f"{name}: a bronze table keeps what arrived; use Append().")
    if table.feed is not None and not isinstance(changes, Files | ChangeLog | SnapshotDiff):
        raise DefinitionError(
            f"{name}: changes is {changes!r}, but in day folders the files tell what is new: use "
            "Files(), ChangeLog(…) or SnapshotDiff(…). Timestamp and Sequence read a Stored(…)."
        )
    if table.stored is not None and isinstance(changes, Files):
        raise DefinitionError(
            f"{name}: a stored source needs to be told how it shows what is new: changes="
            "Timestamp(…), Sequence(…), ChangeLog(…) or SnapshotDiff(…)."
        )
    if isinstance(changes, SnapshotDiff) and table.stored is not None and table.stored.day:
        raise DefinitionError(f"{name}: a full copy stands for a moment; it has no day column.")
    if isinstance(changes, SnapshotDiff | ChangeLog) and table.day is not None:
        raise DefinitionError(
            f"{name}: what a log or a copy changes may change for ever, so it has no business day; "
            "leave `day` out."
        )
    rows = [rule.name for rule in table.row_rules]
    if rows:
        raise DefinitionError(
            f"{name}: {rows} judge rows, and bronze keeps every row; give them to silver."
        )


def _check_typed(table: Table) -> None:
    name, log = table.name, table.log
    if isinstance(table.write, ReplaceDay):
        raise DefinitionError(f"{name}: a table over bronze is an Append, a Merge or a History.")
    if table.schema is None or not (table.key or isinstance(table.write, Append)):
        raise DefinitionError(
            f"{name}: {type(table.write).__name__}() needs a key and a schema contract."
        )
    if isinstance(table.write, Append) and (log is not None or table.key or table.order_by):
        raise DefinitionError(
            f"{name}: Append() keeps every row, so nothing is deleted and no version decides; "
            "leave key and order_by out, or use Merge() or History()."
        )
    used = {*table.key, *table.order_by, *([table.day] if table.day else [])}
    missing = sorted(used - set(table.schema.columns))
    if missing:
        raise DefinitionError(f"{name}: {missing} are used but not in the contract.")
    if log is not None and (table.order_by or table.day):
        raise DefinitionError(
            f"{name}: its changes have an order of their own, and its rows may change for ever; "
            "leave order_by and day out."
        )
    if isinstance(log, SnapshotDiff) and set(log.key) != set(table.key):
        raise DefinitionError(
            f"{name}: the copies are compared by {log.key}; the key has to be the same."
        )
    if isinstance(table.write, History) and log is None and len(table.order_by) != 1:
        raise DefinitionError(f"{name}: a history is measured in one column; name it in order_by.")
    own = sorted(set(VALIDITY) & {column.lower() for column in table.schema.columns})
    if isinstance(table.write, History) and own:
        raise DefinitionError(
            f"{name}: a history has the columns {', '.join(VALIDITY)} of its own; the contract "
            f"names {own}. Rename them in a transform."
        )
    if isinstance(table.write, History) and table.day is not None:
        raise DefinitionError(f"{name}: the versions of a key lie on many days; leave day out.")
