"""A batch, its outcome, and what a kind of batch has to do."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cached_property
from typing import Any, Generic, TypeVar

from pyspark.sql import SparkSession

from incremental_assets.delta.delta_log import Commit, find_commit, partition_day
from incremental_assets.delta.delta_table import bytes_of, columns_of
from incremental_assets.delta.quarantine import Quarantine
from incremental_assets.delta.stage import folder_of
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.errors import ConflictError, IncrementalAssetsError
from incremental_assets.frames import Frames
from incremental_assets.ledger.consistency import CLAIM_NOTE
from incremental_assets.ledger.entry import Entry, Touched
from incremental_assets.ledger.hold_reason import hold_reason
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan import Work
from incremental_assets.quality.gate import Counted
from incremental_assets.quality.judge import RuleResult, failing
from incremental_assets.settings import Settings
from incremental_assets.spark.load_session import Size, size_of
from incremental_assets.table import AsOf, Table

C = TypeVar("C")
# What the note of a commit holds per day: settling reads the outcome from it.
_NOTED = (
    "state",
    "rows_read",
    "rows_inserted",
    "rows_updated",
    "rows_deleted",
    "rows_quarantined",
    "rows_late",
    "rows_counted",
    "rows_counted_quarantined",
    "held_by",
)
# Likewise, but only where there is a value.
_NOTED_IF_ANY = ("low", "high", "position")


@dataclass(frozen=True)
class Batch:
    """A claimed batch: what to load, its number, and what it may use.

    `versions` are the Delta versions of the upstreams, fixed at the claim; `now` is the one clock
    reading of the load, for a stored source that by which it was planned.
    """

    table: Table
    number: int
    work: Work
    claims: Sequence[Entry]
    view: LedgerView
    versions: Mapping[str, int]
    settings: Settings
    now: datetime
    spark: Callable[[], SparkSession]

    @property
    def path(self) -> str:
        """The path of the table."""
        return f"{self.settings.lake}/{self.table.name}"

    @property
    def folder(self) -> str:
        """The beginning of the folders' names in which it stages its files."""
        return folder_of(self.table.name, self.number)

    @property
    def quarantine(self) -> Quarantine:
        """The rows that the table's gate quarantined."""
        return quarantine_of(self.settings, self.table)

    @cached_property
    def columns(self) -> Sequence[str]:
        """The columns that the table has at the claim."""
        return columns_of(self.path)

    @property
    def size(self) -> Size:
        """How large the load is, by its rows and by what it reads."""
        return size_of(self.work.rows, self.bytes_read)

    @cached_property
    def bytes_read(self) -> Sequence[int]:
        """The bytes of what is new, and of each table that it looks something up in."""
        lake, table = self.settings.lake, self.table
        looked_up: list[tuple[str, set[date] | None]] = [
            (r.table.name, None) for r in table.upstreams if isinstance(r, AsOf)
        ]
        if self.work.mode == "merge" or table.changes.compares_days:
            by_day = table.day or (not table.is_typed and table.write.keeps_latest)
            looked_up.append((table.name, set(self.work.days) if by_day else None))
        if table.write.recomputes_keys or self.reads_upstream_whole:
            looked_up += [(r.table.name, None) for r in table.upstreams]
        return [self.work.bytes, *(bytes_of(f"{lake}/{name}", days) for name, days in looked_up)]

    def accepting(self, results: Sequence[RuleResult], *days: date) -> list[RuleResult]:
        """The results; those that were accepted for all of these days are warnings."""
        accepted = frozenset.intersection(*(self.work.days[day].accepted for day in days))
        return [
            replace(r, severity="warn", found=f"{r.found} (accepted)")
            if r.rule in accepted and not r.passed
            else r
            for r in results
        ]

    @property
    def reads_upstream_whole(self) -> bool:
        """Whether keys are rebuilt, of which any day of the upstream may hold rows."""
        return self.table.is_typed and self.work.mode == "rebuild" and self.table.day is None

    def commit(self) -> Commit:
        """The commit that the batch made.

        Raises ConflictError if the write was skipped: another run settled the batch meanwhile.
        """
        found = find_commit(self.path, self.table.name, self.number)
        if found is None or found.note.get("fence"):
            raise ConflictError(
                f"{self.table.name}: batch {self.number} was abandoned by another run while this "
                "one was writing. Nothing of it was published; run again."
            )
        return found


@dataclass(frozen=True)
class Outcome:
    """The outcome of a batch: an entry per day, what each rule found, and notes for the log.

    A day is held if, and only if, a result holds it: whoever shows results shows what was done.
    `counted` is what the gate counted of typed rows.
    """

    entries: Sequence[Entry]
    results: Mapping[date, Sequence[RuleResult]]
    notes: Sequence[str] = ()
    counted: Counted | None = None

    def __post_init__(self) -> None:
        for entry in self.entries:
            failed = failing(self.results.get(entry.day, ()))
            assert (entry.state == "held") == bool(failed), (entry.table, entry.day, failed)

    @property
    def published(self) -> list[date]:
        """The days that passed."""
        return [entry.day for entry in self.entries if entry.state == "committed"]


def quarantine_of(settings: Settings, table: Table) -> Quarantine:
    """The rows that a table's gate quarantined."""
    path = f"{settings.lake}/quarantine/{table.name.replace('/', '_')}"
    return Quarantine(path, table.name)


class BatchKind(ABC, Generic[C]):
    """How a kind of table reads, gates and writes a batch, in the steps of `engine.load`.

    What was read (`C`) is handed from step to step; a frame in it is cached until the batch's end.
    """

    @abstractmethod
    def columns(self, table: Table) -> Sequence[tuple[str, str]]:
        """The columns that the table is created with: names and Delta types."""

    @abstractmethod
    def partition_by(self, table: Table) -> Sequence[str]:
        """The partition columns."""

    @abstractmethod
    def read(self, batch: Batch, frames: Frames) -> C:
        """The rows of the batch; what can only be judged as it lands is staged with it."""

    @abstractmethod
    def gate(self, batch: Batch, frames: Frames, read: C) -> Outcome:
        """Judge each day of the batch by the table's rules."""

    def quarantine(self, batch: Batch, frames: Frames, read: C, outcome: Outcome) -> None:
        """Put the rows that break a rule into quarantine."""

    @abstractmethod
    def stage(self, batch: Batch, frames: Frames, read: C, outcome: Outcome) -> StagedWrite | None:
        """Stage the days that pass; None where there is nothing to commit."""

    def counted(self, outcome: Outcome, write: StagedWrite) -> Sequence[Entry]:
        """The entries with the rows that the batch inserts, updates and deletes."""
        return outcome.entries

    def note(self, batch: Batch, read: C, entries: Sequence[Entry]) -> str:
        """The commit's note, from which settling reads the outcome of the batch."""
        return note(batch.number, entries)

    @abstractmethod
    def settled(self, table: Table, claims: Sequence[Entry], commit: Commit) -> Sequence[Entry]:
        """The outcome of a batch, from its commit alone."""

    def explained(self, batch: Batch, error: Exception) -> IncrementalAssetsError | None:
        """The error to raise where the source explains an error of Spark; else None."""
        return None


def without_holding(results: Sequence[RuleResult]) -> list[RuleResult]:
    """The results of a day that is published whatever they are: what failed is a warning."""
    return [r if r.passed else replace(r, severity="warn") for r in results]


def verdict(results: Sequence[RuleResult]) -> dict[str, Any]:
    """The fields `state` and `held_by` of a day's entry, by the results of the rules."""
    failed = {r.rule: r.found for r in failing(results)}
    return {"state": "held" if failed else "committed", "held_by": hold_reason(failed)}


def note(number: int, outcomes: Sequence[Entry]) -> str:
    """The note of a commit."""
    days = {
        str(e.day): {name: getattr(e, name) for name in _NOTED}
        | {name: getattr(e, name) for name in _NOTED_IF_ANY if getattr(e, name)}
        for e in outcomes
    }
    found: dict[str, Any] = {"batch": number, "days": days}
    if outcomes and outcomes[0].token:
        found[CLAIM_NOTE] = outcomes[0].token
    return json.dumps(found, separators=(",", ":"))


def from_commit(
    claims: Sequence[Entry],
    commit: Commit,
    day_of: Callable[[tuple[str | None, ...]], date | None],
) -> list[Entry]:
    """The outcome of each day, from what the writer noted and from what the commit did.

    `day_of` gives the day of a partition. Other days that the commit touched
    are in `touched` of the first published day.
    """
    noted: Mapping[str, Mapping[str, Any]] = commit.note.get("days", {})
    touched: dict[date, int] = {}
    for partition in commit.touched:
        day = day_of(partition)
        if day is not None:
            touched[day] = touched.get(day, 0) + commit.added.get(partition, 0)
    rest = dict(touched)
    entries = []
    for claim in claims:
        known = noted.get(str(claim.day), {"state": "committed"})
        entry = replace(claim, **known, target_version=commit.version)
        if entry.state == "committed":
            own = rest.pop(claim.day, None)
            if own is not None:
                entry = replace(entry, touched=(Touched(claim.day, own),))
        entries.append(entry)
    first = next((i for i, e in enumerate(entries) if e.state == "committed"), None)
    if first is not None:
        others = tuple(Touched(day, rows) for day, rows in sorted(rest.items()))
        entries[first] = replace(
            entries[first],
            touched=(*entries[first].touched, *others),
        )
    return entries


def first_partition(partition: tuple[str | None, ...]) -> date | None:
    """The day of a table that is partitioned by `dt` alone."""
    return partition_day(partition[0])


class DayBatch(BatchKind[C]):
    """What the kinds of batches share whose table is partitioned by `dt` alone."""

    def columns(self, table: Table) -> Sequence[tuple[str, str]]:
        return (("_batch", "long"), ("dt", "date"))

    def partition_by(self, table: Table) -> Sequence[str]:
        return ("dt",)

    def settled(self, table: Table, claims: Sequence[Entry], commit: Commit) -> Sequence[Entry]:
        return from_commit(claims, commit, first_partition)
