"""The steps of a batch of a table's days."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

from pyspark.sql import SparkSession

from incremental_assets.delta.delta_table import ensure_table, version_of
from incremental_assets.delta.publish import publish
from incremental_assets.delta.side_table import cleanup, last_number
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.delta.table_key import (
    is_same_key,
    key_properties,
    record_key,
    recorded_key,
)
from incremental_assets.delta.transaction import Transaction
from incremental_assets.engine.batch import Batch, BatchKind, Outcome, quarantine_of
from incremental_assets.engine.kinds import detector_of
from incremental_assets.engine.load import REPAIR, Steps
from incremental_assets.engine.lookups import affected_days, looked_up_versions
from incremental_assets.engine.outdated import outcomes_of, outdated_rows
from incremental_assets.engine.settling import supersede
from incremental_assets.errors import (
    ConflictError,
    DefinitionError,
    IncrementalAssetsError,
    LakeError,
    SourceError,
)
from incremental_assets.frames import Frames
from incremental_assets.ledger.consistency import new_token
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.settle import record
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan import Work, file_entries
from incremental_assets.plan.consistent import require_all_consistent
from incremental_assets.settings import Settings, user_name
from incremental_assets.sources.json_documents import broken_document
from incremental_assets.spark.failure import what_failed
from incremental_assets.spark.load_session import Size, batch_frames
from incremental_assets.spark.optional_jars import jars_of
from incremental_assets.spark.sizing import announce
from incremental_assets.table import Table


@dataclass(frozen=True)
class LoadContext:
    """What every load of a lake uses: its tables, ledger, Spark, clock and log."""

    settings: Settings
    tables: tuple[Table, ...]
    ledger: Ledger
    spark: Callable[[], SparkSession]
    now: Callable[[], datetime]
    log: Callable[[str], None]


class TableSteps(Steps[Any, Outcome, Outcome]):
    """Claims the days of a plan, and loads them as their kind of table does.

    `after` is the table's last batch as the plan knew it, and `planned_at` the clock reading of the
    plan: new rows of a source without days belong to the day that was then.
    """

    claims_before_read: ClassVar[bool] = True

    def __init__(
        self,
        lake: LoadContext,
        table: Table,
        work: Work,
        after: int,
        run_id: str,
        kind: BatchKind[Any],
        planned_at: datetime | None = None,
    ) -> None:
        self._lake = lake
        self.table = table
        self._work = work
        self._after = after
        self._run_id = run_id
        self._kind = kind
        self._planned_at = planned_at if work.source is not None else None
        self._batch: Batch | None = None
        self._started = time.monotonic()
        self._path = f"{lake.settings.lake}/{table.name}"
        _ensure_table(table, self._path, kind)

    @property
    def batch(self) -> Batch:
        """The batch, once it is claimed."""
        assert self._batch is not None
        return self._batch

    def number(self) -> int:
        return self.batch.number

    def frames(self) -> Frames:
        def size() -> Size:
            announce(self.batch.work.rows, self.batch.bytes_read)
            return self.batch.size

        def jars() -> Sequence[Path]:
            source = self.batch.work.source
            needs = source.needs if source is not None else ()
            return jars_of(needs, self._lake.settings.cache)

        return batch_frames(self._lake.spark, size, jars, path=self._path)

    def claim(self) -> None:
        """Fix the windows and the upstreams' versions, and write the next number to the ledger.

        Raises LedgerError if the ledger and an upstream are inconsistent: what it lacks would count
        as read.
        """
        lake, table = self._lake, self.table
        now, who, token = lake.now(), user_name(), new_token()
        # A ledger that was lost knows nothing of a table that has only its quarantine.
        last = self._after or last_number(
            self._path, quarantine_of(lake.settings, table).path, table.name
        )
        number = last + 1
        planned = lake.ledger.view()
        claimed: list[Entry] = []

        def decide(view: LedgerView) -> Sequence[Entry]:
            history = view.table(table.name)
            if history.last_batch != self._after or history.unsettled:
                raise ConflictError(
                    f"{table.name}: another run claimed batch {history.last_batch} meanwhile. "
                    "Nothing was published by this one; run again."
                )
            claimed[:] = [
                Entry(
                    table=table.name,
                    batch=number,
                    day=day,
                    state="claimed",
                    kind=self._work.kind,
                    mode=self._work.mode,
                    detector=detector_of(table),
                    recorded_at=now,
                    windows=todo.windows,
                    files=file_entries(todo.files),
                    run_id=self._run_id,
                    who=who,
                    why=todo.why,
                    code_version=table.code_version,
                    token=token,
                )
                for day, todo in sorted(self._work.days.items())
            ]
            return claimed

        versions = {
            read.table.name: version_of(f"{lake.settings.lake}/{read.table.name}")
            for read in table.upstreams
            if planned.table(read.table.name).high
        }
        require_all_consistent(lake.ledger, lake.settings, [r.table for r in table.upstreams])
        view = lake.ledger.transact(decide)
        # After the claim: a load that commits what is not in these sees the claim, and records
        # what it changed for this table's days (`affected_days`).
        versions |= looked_up_versions(table, lake.settings.lake)
        self._batch = Batch(
            table,
            number,
            self._work,
            claimed,
            view,
            versions,
            lake.settings,
            self._planned_at or now,
            lake.spark,
        )

    def read(self, frames: Frames) -> Any:
        return self._kind.read(self.batch, frames)

    def gate(self, frames: Frames, read: Any) -> Outcome:
        judged = self._kind.gate(self.batch, frames, read)
        return replace(judged, notes=(*frames.notes, *judged.notes))

    def quarantine(self, frames: Frames, read: Any, judged: Outcome) -> None:
        self._kind.quarantine(self.batch, frames, read, judged)

    def stage(self, frames: Frames, read: Any, judged: Outcome) -> StagedWrite | None:
        write, table = self._kind.stage(self.batch, frames, read, judged), self.table
        if write is not None and write.side and not table.has_side_table:
            raise DefinitionError(
                f"{table.name}: {type(table.write).__name__}() keeps rows beside the table "
                "(`side`), and only a silver table with a key has a side table. Nothing was "
                "published."
            )
        return write

    def commit(self, read: Any, judged: Outcome, write: StagedWrite | None) -> Outcome:
        if write is None:
            return judged
        batch, kind = self.batch, self._kind
        entries = kind.counted(judged, write)
        note = kind.note(batch, read, entries)
        publish(
            write.staged,
            Transaction(batch.table.name, batch.number, note),
            replaced_files=write.replaced,
            replaced_by=write.replaced_by,
        )
        settled = kind.settled(batch.table, entries, batch.commit())
        return replace(judged, entries=settled, notes=(*judged.notes, *write.notes))

    def record(self, outcome: Outcome) -> Outcome:
        lake, table = self._lake, self.table
        # Which fact days look up what the batch changed; none for a table that is not looked up.
        affected = affected_days(self.batch, lake.tables, outcome.entries)
        seconds = round(time.monotonic() - self._started, 3)
        entries = [
            replace(e, affects=affected, recorded_at=lake.now(), seconds=seconds)
            for e in outcome.entries
        ]
        supersede(lake.settings, table, entries)
        record(lake.ledger, table.name, entries)
        self._tidy(entries)
        return replace(outcome, entries=entries)

    def explained(self, error: Exception) -> IncrementalAssetsError:
        name = self.table.name
        if self._batch is not None:
            known = self._kind.explained(self._batch, error)
            if known is not None:
                return known
            name = f"{name}, batch {self._batch.number}"
        broken = broken_document(error)
        if broken:
            return SourceError(f"{name}: {broken}. {REPAIR}")
        return LakeError(
            f"{name}: Spark failed: {what_failed(error)}. Nothing was published in part; "
            "run again, and if it fails again, investigate this error."
        )

    def _tidy(self, entries: Sequence[Entry]) -> None:
        """Remove the outdated rows from quarantine; the load is done even if that fails."""
        batch, log = self.batch, self._lake.log
        name, days = batch.table.name, {entry.day for entry in entries}
        outcomes = (*outcomes_of(batch.view.table(name), days), *entries)
        batch.quarantine.remove_outdated(outdated_rows(outcomes, days), log)
        keep = self._lake.settings.quarantine_days
        if keep and any(entry.rows_quarantined for entry in entries):
            with cleanup(f"{name}: rows that are in quarantine for too long", log):
                batch.quarantine.expire(batch.now - timedelta(days=keep))


def _ensure_table(table: Table, path: str, kind: BatchKind[Any]) -> None:
    """Create the Delta table. Raises DefinitionError where it is filled by another key."""
    key = table.key if table.write.by_key else ()
    columns, by = kind.columns(table), kind.partition_by(table)
    there = ensure_table(path, table.name, columns, by, key_properties(key))
    if there is None or not key:
        return
    before = recorded_key(there)
    if not before:  # an older version created it
        record_key(there, key)
    elif not is_same_key(before, key):
        raise DefinitionError(
            f"{table.name}: {path} is filled by the key {list(before)}, and is now "
            f"defined with {list(key)}: rows of both keys would stay side by side. Nothing was "
            f"loaded. Define the key as before; or, to load the table by the new key from its "
            f"beginning, remove {path} and run `incremental-assets ledger rebuild {table.name}`."
        )
