"""A table that is built again for a comparison, and how tables of a lake are, from any upstream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from incremental_assets.days import DayRange, named
from incremental_assets.delta.clone import clone
from incremental_assets.delta.delta_table import bytes_of, open_table, version_of
from incremental_assets.engine.batch import quarantine_of
from incremental_assets.errors import LakeError
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan import Plan
from incremental_assets.plurals import counted
from incremental_assets.table import Table
from incremental_assets.verifying.quarantine import quarantine_compared
from incremental_assets.verifying.rows import RowSelection, rebuilt_rows, table_rows
from incremental_assets.verifying.scope import DaysToVerify, TableDays
from incremental_assets.verifying.verified import Compared, Verified


class Rebuild(ABC):
    """A table at `path`, as it is `now`, that can be built again.

    `found` is what is known before that: the version that is compared, what is left out, and what
    is rebuilt, if anything is. `history` is what the ledger knows of the table.
    """

    found: Verified
    path: str
    history: TableHistory
    now: datetime

    @property
    def size(self) -> int:
        """About how many bytes the rebuild takes."""
        return bytes_of(self.path)

    @abstractmethod
    def build(self, folder: str) -> tuple[str, Callable[[SparkSession], Verified]]:
        """Build the table again in a folder; its path there, and what compares the two."""


@dataclass(frozen=True)
class Asked:
    """A table of a lake to verify, for some days (None: all), as the ledger knows it `now`."""

    lakehouse: Lakehouse
    table: Table
    view: LedgerView
    days: DayRange | None
    now: datetime

    @property
    def history(self) -> TableHistory:
        """What the ledger knows of the table."""
        return self.view.table(self.table.name)


@dataclass(frozen=True)
class Method:
    """How days of tables of a lake are built again, and which rows are compared, by which `day`.

    `plan` plans days in the scratch lake, by the view of its ledger; `compare` compares the table
    with its rebuild.
    """

    plan: Callable[[Lakehouse, Table, Sequence[date], LedgerView], Plan]
    selection: RowSelection
    day: str
    compare: Callable[[DataFrame, DataFrame], Compared]


class LakeRebuild(Rebuild):
    """The rebuild of a table of a lake with the tables that it needs, at one version of each."""

    def __init__(
        self, asked: Asked, chosen: DaysToVerify, method: Method, notes: Sequence[str] = ()
    ) -> None:
        lake, table, view = asked.lakehouse.settings.lake, asked.table, asked.view
        self.path, self.history, self.now = f"{lake}/{table.name}", asked.history, asked.now
        self._asked, self._chosen, self._method = asked, chosen, method
        self._versions = {
            each.name: _known_version(f"{lake}/{each.name}", view.table(each.name))
            for each in (*chosen.bronze, *chosen.empty, table)
            if view.table(each.name).committed
        }
        quarantine = open_table(quarantine_of(asked.lakehouse.settings, table).path)
        self._quarantine = None if quarantine is None else quarantine.version()
        parts = chosen.parts if chosen.days_of(table) else ()
        self.found = Verified(
            table.name,
            self._versions[table.name],
            self.history.high,
            left_out=chosen.left_out,
            notes=tuple(notes),
            rebuilt={part.table.name: len(part.days) for part in parts},
        )

    @property
    def size(self) -> int:
        lake = self._asked.lakehouse.settings.lake
        return sum(_bytes(lake, part) for part in self._chosen.parts)

    def build(self, folder: str) -> tuple[str, Callable[[SparkSession], Verified]]:
        scratch = self._asked.lakehouse.in_lake(folder, self.now)
        self._clone(scratch)
        notes = [note for part in self._chosen.parts for note in self._load_again(scratch, part)]
        return f"{folder}/{self.found.table}", partial(self._compared, scratch, notes)

    def _clone(self, scratch: Lakehouse) -> None:
        """Clone what is not rebuilt into the scratch lake, with its entries in the ledger.

        Bronze with its rows, other tables without, for transforms that need their columns.
        """
        lake, entries = self._asked.lakehouse.settings.lake, []
        empty = {each.name for each in self._chosen.empty}
        for each in (*self._chosen.bronze, *self._chosen.empty):
            name = each.name
            if name not in self._versions:
                continue
            to = f"{scratch.settings.lake}/{name}"
            clone(f"{lake}/{name}", self._versions[name], to, rows=name not in empty)
            # A repaired file needs no restatement where nothing was read yet. The clone has
            # versions of its own, and none of the batches' commits.
            entries += [
                replace(entry, kind="advance", files=(), target_version=None)
                for entry in self._asked.view.table(name).committed
                if entry.kind != "rewind"
            ]
        scratch.ledger.transact(lambda _: entries)

    def _load_again(self, scratch: Lakehouse, part: TableDays) -> list[str]:
        """Load the days into the scratch lake; a note for each rule that would have held some.

        No day is held: the rows of such a day are compared like any other's. A day that was
        accepted needs no note. Raises LakeError if a day was not built all the same.
        """
        table, history = part.table, self._asked.view.table(part.table.name)
        checks, of = table.checks(), len(history.last_committed)
        every = f"all {counted(of, 'day')}" if of > 1 else "its only day"
        what = f"{len(part.days):,} of {counted(of, 'day')}" if len(part.days) < of else every
        scratch.log(f"{self.found.table}: {table.name} is rebuilt, {what}")

        def without_holds(days: Sequence[date], view: LedgerView) -> Plan:
            plan = self._method.plan(scratch, table, days, view)
            return plan.with_days(lambda todo: replace(todo, accepted=frozenset(checks)))

        result = scratch.load_as(table, part.days, without_holds, "a verification")
        if result.failed:
            day, why = next(iter(result.failed.items()))
            raise LakeError(f"{table.name} {day} could not be rebuilt: {why.reason}.")
        accepted = {entry.day for entry in history.outcomes if entry.state == "accepted"}
        broken: dict[str, list[tuple[date, str]]] = {}
        for day, done in result.days.items():
            for name, judged in done.checks.items():
                blocks = name in checks and checks[name].blocking
                if not judged.passed and blocks and day not in accepted:
                    broken.setdefault(name, []).append((day, judged.found))
        return [
            f"{table.name}: its rule {name} would hold {named(day for day, _ in found)} if it "
            f"was built as one batch ({found[0][1].removesuffix(' (accepted)')})"
            for name, found in broken.items()
        ]

    def _compared(
        self, scratch: Lakehouse, notes: Sequence[str], session: SparkSession
    ) -> Verified:
        table, method, found = self._asked.table, self._method, self.found
        rows, day = method.selection, method.day
        real = table_rows(session, self.path, found.version, rows, day)
        rebuilt = rebuilt_rows(session, f"{scratch.settings.lake}/{table.name}", real, rows, day)
        compared = method.compare(real, rebuilt)
        quarantine, more = quarantine_compared(
            session, self._asked.lakehouse, scratch, table, self.history, self._quarantine, rows
        )
        notes = (*found.notes, *notes, *more)
        return replace(found, rows=compared, quarantine=quarantine, notes=notes)


def _bytes(lake: str, part: TableDays) -> int:
    days = None if part.table.write.recomputes_keys else set(part.days)
    return bytes_of(f"{lake}/{part.table.name}", days)


def _known_version(path: str, history: TableHistory) -> int:
    """The version of a table that holds just what the ledger knew when it was read.

    The newest, unless a batch was published since: what else is committed changes no row.
    """
    there = open_table(path)
    if there is None:
        return version_of(path)  # which raises with what is wrong
    published = there.transaction_version(history.table) or 0
    if published <= history.outcomes[-1].batch:
        version: int = there.version()
        return version
    known = (e.target_version for e in history.committed if e.target_version is not None)
    return max(known, default=0)
