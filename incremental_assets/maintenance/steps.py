"""Maintenance of the lake while loads go on: no load waits for it, and none fails by it.

Small files of a day are compacted, files that are not needed are removed, logs get checkpoints, old
rows expire from quarantine, and the ledger is compacted. No row of a table changes and no watermark
moves, so nothing is stale because of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta

from pyspark.sql import SparkSession

from incremental_assets.delta import vacuum
from incremental_assets.delta.compact import (
    CompactionGroup,
    commit_compaction,
    compaction_groups,
    discard_uncommitted,
    stage_compaction,
)
from incremental_assets.delta.delta_log import checkpoint_of, keep_log_short
from incremental_assets.delta.delta_table import open_table, version_of
from incremental_assets.delta.read import DataFile, TableFiles, plain_files
from incremental_assets.engine.batch import quarantine_of
from incremental_assets.engine.outdated import outdated_rows
from incremental_assets.engine.since import batches_read_again, version_read
from incremental_assets.errors import ConflictError, IncrementalAssetsError, LakeError
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger, ledger_path, no_lake
from incremental_assets.ledger.lock import brief_lock
from incremental_assets.ledger.tail import tail_of
from incremental_assets.locations import local_path
from incremental_assets.maintenance.delta_tables import (
    LakeDeltaTable,
    delta_tables,
    files_bytes_version,
)
from incremental_assets.maintenance.result import (
    EVERYTHING,
    MaintainedTable,
    MaintenanceOptions,
    MaintenanceResult,
    MaintenanceStep,
)
from incremental_assets.plurals import counted
from incremental_assets.settings import Settings
from incremental_assets.spark.failure import SPARK_ERRORS, what_failed
from incremental_assets.spark.load_session import own_session, size_of
from incremental_assets.table import Table

CHECKPOINT_AT_COMMITS = 10
# Files that are written by one Spark job and committed at once.
_GROUPS_A_COMMIT = 32
_OWNER = "maintenance"


def maintain(
    settings: Settings,
    tables: Sequence[Table],
    spark: Callable[[], SparkSession],
    now: datetime,
    options: MaintenanceOptions = EVERYTHING,
    log: Callable[[str], None] = lambda _: None,
) -> MaintenanceResult:
    """Do the steps for these tables, one after the other; `spark` only where files are compacted.

    What fails for one table is in its result, and the others are done. Raises LakeError if there
    is no lake, and ConflictError if another maintenance of it is in progress.
    """
    started = time.monotonic()
    if open_table(ledger_path(settings.lake)) is None:
        raise no_lake(settings.lake)
    ledger = Ledger(ledger_path(settings.lake))
    steps = _Maintenance(settings, ledger, spark, now, options, log)
    with ExitStack() as held:
        if not options.dry_run:
            alone = held.enter_context(brief_lock(settings.lake, _OWNER, _OWNER, 0))
            if not alone:
                raise ConflictError(
                    f"Another maintenance of {settings.lake} is in progress. Nothing was done; it "
                    "does the same."
                )
        results = [steps.maintain(each) for each in delta_tables(settings, tables)]
        files = ledger.compact() if "ledger" in options.steps and not options.dry_run else None
    done = tuple(result for result in results if result is not None)
    return MaintenanceResult(done, files, time.monotonic() - started)


@dataclass(frozen=True)
class _Maintenance:
    settings: Settings
    ledger: Ledger
    spark: Callable[[], SparkSession]
    now: datetime
    options: MaintenanceOptions
    log: Callable[[str], None] = field(repr=False)

    def maintain(self, target: LakeDeltaTable) -> MaintainedTable | None:
        """Do the steps for a Delta table, also after one that fails. None where there is no table.

        On a full disk a compaction fails, and VACUUM makes room.
        """
        started = time.monotonic()
        result = MaintainedTable(target.name)
        failed: dict[str, None] = {}
        steps: dict[
            MaintenanceStep, Callable[[LakeDeltaTable, MaintainedTable], MaintainedTable]
        ] = {
            "quarantine": self._clean_quarantine,
            "optimize": self._compact,
            "checkpoint": self._checkpoint,
            "vacuum": self._vacuum,
        }
        try:
            before = files_bytes_version(target.path)
            if before is None:
                return None
            files, size, version = before
            result = MaintainedTable(target.name, files, files, size, size, version, version)
            for step in (each for name, each in steps.items() if name in self.options.steps):
                try:
                    result = step(target, result)
                except IncrementalAssetsError as error:
                    failed[str(error)] = None
            if not self.options.dry_run:
                files, size, version = files_bytes_version(target.path) or before
                result = replace(result, files_after=files, bytes_after=size, version_after=version)
        except IncrementalAssetsError as error:
            failed[str(error)] = None
        why = f"{target.name}: {' '.join(failed)}" if failed else ""
        return replace(result, failed=why, seconds=round(time.monotonic() - started, 3))

    def _clean_quarantine(self, target: LakeDeltaTable, result: MaintainedTable) -> MaintainedTable:
        """Remove rows that do not count or have expired; a failure is noted, and the rows stay."""
        if not target.is_quarantine:
            return result
        try:
            return self._expire(target, self._drop_outdated(target, result))
        except IncrementalAssetsError as error:
            why = f"outdated rows are left in quarantine; no reader counts them: {error}"
            return replace(result, skipped=(*result.skipped, why))

    def _drop_outdated(self, target: LakeDeltaTable, result: MaintainedTable) -> MaintainedTable:
        if self.options.dry_run:
            return result
        quarantine = quarantine_of(self.settings, target.table)
        outcomes = self.ledger.view().table(target.table.name).outcomes
        left = quarantine.remaining(outdated_rows(outcomes))
        if left:
            with self._lock(target) as mine:
                if not mine:
                    return _skipped(result, "rows are left in quarantine", target)
                quarantine.drop(left)
        return result

    def _expire(self, target: LakeDeltaTable, result: MaintainedTable) -> MaintainedTable:
        days = self.settings.quarantine_days
        if not days:
            return result
        before = self.now - timedelta(days=days)
        quarantine = quarantine_of(self.settings, target.table)
        rows = quarantine.expired(before)
        if not rows or self.options.dry_run:
            return replace(result, rows_expired=rows)
        with self._lock(target) as mine:
            if not mine:
                return _skipped(result, "rows are left in quarantine", target)
            quarantine.expire(before)
        return replace(result, rows_expired=rows)

    def _compact(self, target: LakeDeltaTable, result: MaintainedTable) -> MaintainedTable:
        table = plain_files(target.path, version_of(target.path))
        groups = compaction_groups(
            table, self.options.limits, lambda file: self._is_of_days(table, file)
        )
        if self.options.dry_run:
            after = result.files_before - sum(len(group.files) - 1 for group in groups)
            return replace(result, files_after=after, days=_days(groups))
        for at in range(0, len(groups), _GROUPS_A_COMMIT):
            some = groups[at : at + _GROUPS_A_COMMIT]
            result = self._compact_groups(target, result, table, some)
        return result

    def _compact_groups(
        self,
        target: LakeDeltaTable,
        result: MaintainedTable,
        table: TableFiles,
        groups: Sequence[CompactionGroup],
    ) -> MaintainedTable:
        files = sum(len(group.files) for group in groups)
        self.log(f"{target.name}: compacting {counted(files, 'file')} into {len(groups)}")
        try:
            size = size_of(0, [sum(group.size for group in groups)])
            with own_session(self.spark(), size) as session:
                staged = stage_compaction(session, table, groups)
        except SPARK_ERRORS as error:
            raise LakeError(
                f"Spark failed: {what_failed(error)}. Nothing was compacted; run again."
            ) from error
        done: Sequence[CompactionGroup] = ()
        with self._lock(target) as mine:
            if mine:
                done = commit_compaction(staged, groups)
        discard_uncommitted(staged, done)
        if not mine:
            return _skipped(result, f"{_partitions(groups)} not compacted", target)
        left = [group for group in groups if group not in done]
        if left:
            why = f"{_partitions(left)} not compacted: a load rewrote some of the files meanwhile"
            result = replace(result, skipped=(*result.skipped, why))
        return replace(result, days=tuple(sorted({*result.days, *_days(done)})))

    def _checkpoint(self, target: LakeDeltaTable, result: MaintainedTable) -> MaintainedTable:
        if self.options.dry_run:
            version = result.version_before
            due = version - checkpoint_of(target.path) >= CHECKPOINT_AT_COMMITS
            return replace(result, checkpoint=version if due else None)
        # The commit of an unfinished batch has its outcome.
        cut = not self._is_unfinished(target.table)
        version_of_checkpoint = keep_log_short(target.path, CHECKPOINT_AT_COMMITS, cut=cut)
        return replace(result, checkpoint=version_of_checkpoint)

    def _vacuum(self, target: LakeDeltaTable, result: MaintainedTable) -> MaintainedTable:
        since = self.now - timedelta(days=self.settings.vacuum_days)
        oldest = min(self._claims(), key=lambda claim: claim.recorded_at, default=None)
        if oldest is not None and oldest.recorded_at < since:
            since = oldest.recorded_at  # it may still read what was there then
            why = (
                f"batch {oldest.batch} of {oldest.table} is unfinished since {since:%Y-%m-%d %H:%M}"
            )
            skipped = f"files since then are kept: {why}"
            result = replace(result, skipped=(*result.skipped, skipped))
        files = vacuum.unreferenced(target.path, since)
        if files and not self.options.dry_run:
            vacuum.announce_removal(target.path, vacuum.version_at(target.path, since))
            files = vacuum.without_needed(target.path, files, self._read_by_loads(target))
            vacuum.drop(target.path, files)
        return replace(result, removed=len(files), freed=sum(file.size for file in files))

    def _read_by_loads(self, target: LakeDeltaTable) -> set[int]:
        """The versions that loads in progress may compare their upstream's newest one with."""
        lows: set[int] = set()
        days: dict[str, set[date]] = {}
        for claim in self._claims():
            for window in claim.windows:
                if window.upstream == target.name:
                    lows |= {window.low} - {0}
                    days.setdefault(claim.table, set()).add(claim.day)
        if not days:
            return set()
        view = self.ledger.view()
        for table, claimed in days.items():
            lows |= batches_read_again(view, table, target.name, claimed)
        return {v for low in lows if (v := version_read(view, target.name, low)) is not None}

    def _claims(self) -> Iterator[Entry]:
        """The days of all batches without an outcome: of loads in progress, or that died."""
        snapshot = self.ledger.snapshot()
        for name in {file.table for file in snapshot.files}:
            yield from tail_of(snapshot, name).unsettled

    def _is_unfinished(self, table: Table) -> bool:
        return bool(self.ledger.tail(table.name).unsettled)

    @contextmanager
    def _lock(self, target: LakeDeltaTable) -> Iterator[bool]:
        """The right to write a Delta table, unless a load of its table is in progress."""
        lake, name = self.settings.lake, target.table.name
        with brief_lock(lake, name, _OWNER, self.options.lock_seconds) as mine:
            # Where there are no locks, only the ledger shows a load.
            yield mine and (local_path(lake) is not None or not self._is_unfinished(target.table))

    def _is_of_days(self, table: TableFiles, file: DataFile) -> bool:
        days = self.options.days
        if days is None:
            return True
        return bool(table.partition_by) and file.partition[table.partition_by[0]] in days


def _days(groups: Sequence[CompactionGroup]) -> tuple[date, ...]:
    """The days of a table's first partition column; a table without partitions has none."""
    firsts = {group.partition[0] for group in groups if group.partition}
    return tuple(sorted(date.fromisoformat(first) for first in firsts if first))


def _partitions(groups: Sequence[CompactionGroup]) -> str:
    return ", ".join(sorted({"/".join(v or "" for v in g.partition) or "files" for g in groups}))


def _skipped(result: MaintainedTable, what: str, target: LakeDeltaTable) -> MaintainedTable:
    why = f"{what}: a load of {target.table.name} is in progress"
    return replace(result, skipped=(*result.skipped, why))
