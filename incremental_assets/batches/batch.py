"""What one batch has in hand, and what it gives back; shared by the kinds of batches."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cached_property
from typing import Any, Protocol

from pyspark.sql import SparkSession

from incremental_assets.errors import ConflictError
from incremental_assets.lake.delta_log import Commit, bytes_of, find_commit, partition_day
from incremental_assets.lake.session import Size, size_of
from incremental_assets.lake.stage import folder_of
from incremental_assets.lake.strategy import Merge
from incremental_assets.lake.transaction import Transaction
from incremental_assets.ledger.entry import Entry, Touched
from incremental_assets.ledger.held_by import held_by
from incremental_assets.ledger.together import CLAIMED_AS
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan import Work
from incremental_assets.quality.judge import RuleResult
from incremental_assets.settings import Settings
from incremental_assets.table import AsOf, Table

# What a writer leaves in its commit, per day, so that the outcome can be told from it alone.
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
# Likewise, but only where there is something to say.
_NOTED_IF_ANY = ("low", "high", "position")


@dataclass(frozen=True)
class Batch:
    """A claimed batch: what to load, its number, and what it may use.

    `versions` are the Delta versions of the upstreams, fixed at the claim; `now` is the one clock
    reading of the load.
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
        """Where the table lies."""
        return f"{self.settings.lake}/{self.table.name}"

    @property
    def folder(self) -> str:
        """The beginning of the folders' names in which it stages its files."""
        return folder_of(self.table.name, self.number)

    @property
    def quarantine_path(self) -> str:
        """Where the rows lie that the table's gate set aside."""
        return quarantine_path(self.settings, self.table)

    @cached_property
    def size(self) -> Size:
        """How large the load is: what is new, and each table that it looks something up in."""
        lake, table = self.settings.lake, self.table
        looked_up: list[tuple[str, set[date] | None]] = [
            (r.table.name, None) for r in table.upstreams if isinstance(r, AsOf)
        ]
        if self.work.mode == "merge" or table.changes.is_snapshot:
            by_day = table.day or (not table.is_typed and isinstance(table.write, Merge))
            looked_up.append((table.name, set(self.work.days) if by_day else None))
        if table.write.recomputes_keys or self.reads_upstream_whole:
            looked_up += [(r.table.name, None) for r in table.upstreams]
        found = [bytes_of(f"{lake}/{name}", days) for name, days in looked_up]
        return size_of(self.work.rows, [self.work.bytes, *found])

    def accepting(self, results: Sequence[RuleResult], *days: date) -> list[RuleResult]:
        """The results, with those as warnings that somebody accepted for all of these days."""
        waived = frozenset.intersection(*(self.work.days[day].waived for day in days))
        return [
            replace(r, severity="warn", found=f"{r.found} (accepted)")
            if r.rule in waived and not r.passed
            else r
            for r in results
        ]

    @property
    def reads_upstream_whole(self) -> bool:
        """Whether keys are derived anew, which any day of the upstream may know of."""
        return self.table.is_typed and self.work.mode == "rebuild" and self.table.day is None

    def transaction(self, outcomes: Sequence[Entry] = ()) -> Transaction:
        """The Delta transaction of the batch; its note tells the outcomes."""
        return Transaction(self.table.name, self.number, note(self.number, outcomes))

    def commit(self) -> Commit:
        """The commit that the batch made.

        Raises ConflictError if the write was skipped: somebody settled the batch meanwhile.
        """
        found = find_commit(self.path, self.table.name, self.number)
        if found is None or found.note.get("fence"):
            raise ConflictError(
                f"{self.table.name}: batch {self.number} was given up by another run while this "
                "one was writing. Nothing of it was published; run again."
            )
        return found


@dataclass(frozen=True)
class Outcome:
    """What came of a batch: an entry per day, what each rule said, and what is to be told."""

    entries: Sequence[Entry]
    results: Mapping[date, Sequence[RuleResult]]
    notes: Sequence[str] = ()


def quarantine_path(settings: Settings, table: Table) -> str:
    """Where the rows lie that a table's gate set aside."""
    return f"{settings.lake}/quarantine/{table.name.replace('/', '_')}"


class BatchKind(Protocol):
    """How a kind of table reads, gates and writes a batch."""

    def columns(self, table: Table) -> Sequence[tuple[str, str]]:
        """The columns that the table is created with: names and Delta types."""

    def partition_by(self, table: Table) -> Sequence[str]:
        """The partition columns."""

    def execute(self, batch: Batch) -> Outcome:
        """Read, gate, write; the caller claimed and will record."""

    def settled(self, table: Table, claims: Sequence[Entry], commit: Commit) -> Sequence[Entry]:
        """The outcome of a batch, told from its commit alone."""


def verdict(results: Sequence[RuleResult]) -> dict[str, Any]:
    """What becomes of a day: the `state` of its entry, and what it is `held_by`."""
    failed = {r.rule: r.found for r in results if r.severity == "fail" and not r.passed}
    return {"state": "held" if failed else "committed", "held_by": held_by(failed)}


def note(number: int, outcomes: Sequence[Entry]) -> str:
    """The note that a commit carries."""
    days = {
        str(e.day): {name: getattr(e, name) for name in _NOTED}
        | {name: getattr(e, name) for name in _NOTED_IF_ANY if getattr(e, name)}
        for e in outcomes
    }
    told: dict[str, Any] = {"batch": number, "days": days}
    if outcomes and outcomes[0].token:
        told[CLAIMED_AS] = outcomes[0].token
    return json.dumps(told, separators=(",", ":"))


def from_commit(
    claims: Sequence[Entry],
    commit: Commit,
    day_of: Callable[[tuple[str | None, ...]], date | None],
) -> list[Entry]:
    """The outcome of each day, from what the writer noted and from what the commit did.

    `day_of` gives the day of a partition. Days that the commit touched beside those of the batch
    stand in `touched` of its first published day.
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


class DayBatch:
    """What the kinds of batches share whose table is partitioned by `dt` alone."""

    def columns(self, table: Table) -> Sequence[tuple[str, str]]:
        return (("_batch", "long"), ("dt", "date"))

    def partition_by(self, table: Table) -> Sequence[str]:
        return ("dt",)

    def settled(self, table: Table, claims: Sequence[Entry], commit: Commit) -> Sequence[Entry]:
        return from_commit(claims, commit, first_partition)
