"""An intake: one source, how it tells what is new, and the one table that its rows go to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from incremental_assets.changes.by_log import ChangeLog
from incremental_assets.changes.by_sequence import Sequence
from incremental_assets.changes.by_snapshot import SnapshotDiff
from incremental_assets.changes.by_timestamp import Timestamp
from incremental_assets.errors import DefinitionError
from incremental_assets.lake.stage import folder_of
from incremental_assets.lake.strategy import (
    SCD2,
    Merge,
    OverwriteDays,
    ReplaceDay,
    Write,
)
from incremental_assets.quality.rule import Rule, looks_further
from incremental_assets.sources.stored import StoredSource

Detector = Timestamp | Sequence | ChangeLog | SnapshotDiff
_PARTITION = re.compile(r"[A-Za-z0-9_]+")
_LONGEST_NAME = 200
# Columns that a load adds; a source may not have any of these.
ORDER, WITHIN, HASH, BATCH, TABLE = "_order", "_within", "_hash", "_batch", "_table"
CHANGED_AT = "_changed_at"
RESERVED = frozenset(
    {ORDER, WITHIN, HASH, BATCH, TABLE, CHANGED_AT}
    | {"_deleted", "_why", "_file", "_raw", "_unreadable", "_reasons", "_known", "_copy"}
)


@dataclass(frozen=True)
class Intake:
    """What a load of a table from its source needs to know.

    `target`, `ledger` and `snapshot` are paths or URIs of Delta tables; several intakes may share
    a ledger, under different names. `at` is the moment a snapshot stands for (None: the load's).
    `start` is the watermark to begin above where the ledger knows none. `max_records` bounds what
    one load takes. Of rows that are equal in all else, that with the lowest `first_by` stays.
    """

    name: str
    source: StoredSource
    target: str
    ledger: str
    changes: Detector
    write: Write
    key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    max_records: int | None = None
    snapshot: str = ""
    at: datetime | None = None
    start: str = ""
    first_by: str = ""

    def __post_init__(self) -> None:
        if not self.name.strip() or len(self.name) > _LONGEST_NAME or not self.name.isprintable():
            raise DefinitionError(
                f"table_name is {self.name!r}; expected a printable name of 1 to {_LONGEST_NAME} "
                "characters."
            )
        if self.write.by_key and not self.key:
            raise DefinitionError(f"{self.name}: {self.write} needs a primary_key.")
        if self.max_records is not None and self.max_records < 1:
            raise DefinitionError(f"{self.name}: max_records is {self.max_records}; at least 1.")
        odd = [name for name in self.partition_by if not _PARTITION.fullmatch(name)]
        if odd:
            raise DefinitionError(
                f"{self.name}: partition_by names {odd}; use columns whose names are letters, "
                "digits and underscores."
            )
        if isinstance(self.write, ReplaceDay | OverwriteDays) and self.partition_by != (
            self.write.day,
        ):
            raise DefinitionError(
                f"{self.name}: {self.write} replaces partitions, so partition_by has to be "
                f"[{self.write.day!r}], not {list(self.partition_by)}."
            )
        wide = [rule.name for rule in self.rules if looks_further(rule)]
        if wide:
            raise DefinitionError(
                f"{self.name}: the rules {wide} look at days, or at other rows and tables; a "
                "loader judges a batch and its rows. Use them in a table of the lakehouse."
            )
        names = [rule.name for rule in self.rules]
        if len(set(names)) != len(names):
            raise DefinitionError(f"{self.name}: two rules have the same name: {sorted(names)}.")
        if self.changes.finds_deletes and not isinstance(self.write, Merge | SCD2):
            raise DefinitionError(
                f"{self.name}: {type(self.changes).__name__} brings deletes, so it is merged or "
                f"kept as history; {self.write} cannot delete."
            )

    @property
    def appends(self) -> bool:
        """Whether a row that is loaded twice would be there twice."""
        return self.write.appends

    @property
    def order(self) -> tuple[str, ...]:
        """The total order between versions of a key: the order columns, then the row hash."""
        debezium = isinstance(self.changes, ChangeLog) and self.changes.envelope == "debezium"
        return (ORDER, WITHIN, HASH) if debezium else (ORDER, HASH)

    @property
    def clock(self) -> str:
        """The column that a history is measured by, if it is not measured in the order."""
        timed = isinstance(self.write, SCD2) and self.write.valid_time == "event"
        return CHANGED_AT if timed else ""

    def folder(self, batch: int) -> str:
        """The beginning of the folders' names in which a batch stages its files."""
        return folder_of(self.name, batch)

    @property
    def beside(self) -> str:
        """The table of changes that the target does not show: delete markers, ties, repeats."""
        return f"{self.target}/_beside"

    @property
    def beside_app(self) -> str:
        """The application that the load is in the log of the table beside the target."""
        return f"beside {self.name}"

    @property
    def ties_app(self) -> str:
        """The same, for the rows that only their hash made lose."""
        return f"ties of {self.name}"

    @property
    def told(self) -> str:
        """The table of the changes that snapshots brought."""
        return f"{self.snapshot}/_changes"

    @property
    def told_app(self) -> str:
        """The application that the load is in its log."""
        return f"changes of {self.name}"

    @property
    def quarantine_app(self) -> str:
        """The same, in the log of the quarantine."""
        return f"quarantine of {self.name}"

    @property
    def quarantine(self) -> str:
        """The table of rows that the gate set aside."""
        return f"{self.target}/_quarantine"
