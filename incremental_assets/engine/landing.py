"""A batch of landed files into a bronze table: every line, as it landed, exactly once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from pyspark.sql import DataFrame

from incremental_assets.delta.delta_log import Commit, partition_day
from incremental_assets.delta.merge import replace_rows
from incremental_assets.delta.read import DataFile
from incremental_assets.delta.stage import stage
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.engine.batch import (
    Batch,
    BatchKind,
    Outcome,
    note,
    verdict,
    without_holding,
)
from incremental_assets.engine.bronze import COLUMNS, PARTITIONS, landed_rows
from incremental_assets.engine.volume import RowsBefore, judges_volume, landed
from incremental_assets.errors import IncrementalAssetsError, SourceError
from incremental_assets.frames import Frames
from incremental_assets.ledger.entry import Entry, Touched
from incremental_assets.plurals import counted
from incremental_assets.quality.judge import RuleResult, judge_day
from incremental_assets.quality.rules import DayCounts
from incremental_assets.sources.landing_root import missing_or_changed
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.spark.failure import what_failed
from incremental_assets.table import Table

_Partitions = Mapping[tuple[date | None, ...], int]
_Came = Mapping[date, Mapping[date, int]]


@dataclass(frozen=True)
class _LandedRows:
    """What the files hold, staged (None: nothing landed), and what a repair carries forward."""

    write: StagedWrite | None
    carried_forward: _Partitions
    came: _Came


class LandingBatch(BatchKind[_LandedRows]):
    """Appends new files; replaces the rows of changed files.

    The gate of a landing day judges its delivery by the rows that were staged, so the files are
    read once, and a day that fails is not published: its files stay where they landed.
    """

    def columns(self, table: Table) -> Sequence[tuple[str, str]]:
        return COLUMNS

    def partition_by(self, table: Table) -> Sequence[str]:
        return PARTITIONS

    def read(self, batch: Batch, frames: Frames) -> _LandedRows:
        files = batch.work.files
        # Empty files bring nothing, but one that was repaired to nothing takes its old rows away.
        restated = batch.work.mode == "rebuild"
        if not (restated or any(file.size for file in files)):
            return _LandedRows(None, {}, {})
        rows = self.incoming(batch, frames)
        if restated:
            write, carried_forward = _replacing(frames, batch, rows, files)
            return _LandedRows(write, carried_forward, _came(write.staged.rows, carried_forward))
        # Each task would write a file for each of the days.
        if batch.size == "medium" and len(batch.work.days) > 1:
            rows = rows.hint("rebalance", *PARTITIONS)
        staged = stage(rows, batch.path, batch.folder, PARTITIONS)
        return _LandedRows(StagedWrite(staged), {}, _came(staged.rows, {}))

    def incoming(self, batch: Batch, frames: Frames) -> DataFrame:
        """The lines of the batch's files."""
        return landed_rows(frames, batch, batch.work.files)

    def gate(self, batch: Batch, frames: Frames, read: _LandedRows) -> Outcome:
        return Outcome(*_judge(batch, read.came, read.write))

    def stage(
        self, batch: Batch, frames: Frames, read: _LandedRows, outcome: Outcome
    ) -> StagedWrite | None:
        if read.write is None:
            return None
        write = read.write.of_days("_landing_day", set(outcome.published))
        return write if write.changes else None

    def note(self, batch: Batch, read: _LandedRows, entries: Sequence[Entry]) -> str:
        """The note, with the rows that a repair carried forward."""
        found = json.loads(note(batch.number, entries))
        carried_forward = read.carried_forward.items()
        found["carried"] = {
            "/".join(map(str, partition)): rows for partition, rows in carried_forward if rows
        }
        return json.dumps(found, separators=(",", ":"))

    def settled(self, table: Table, claims: Sequence[Entry], commit: Commit) -> Sequence[Entry]:
        rows = _rows(commit)
        noted = commit.note.get("days", {})
        return [
            replace(
                _with_rows(claim, rows.get(claim.day, {})),
                **noted.get(str(claim.day), {"state": "committed"}),
                target_version=commit.version,
            )
            for claim in claims
        ]

    def explained(self, batch: Batch, error: Exception) -> IncrementalAssetsError | None:
        missing = missing_or_changed(batch.settings.landing, batch.work.files)
        if missing or "FAILED_READ_FILE" in str(error):
            return SourceError(_unreadable(batch, missing, error))
        return None


def _replacing(
    frames: Frames, batch: Batch, rows: DataFrame, files: Sequence[SourceFile]
) -> tuple[StagedWrite, _Partitions]:
    def of_these_days(file: DataFile) -> bool:
        return file.partition["_landing_day"] in batch.work.days

    paths = [file.path for file in files]
    return replace_rows(frames, rows, batch.path, batch.folder, "_file", paths, of_these_days)


def _judge(
    batch: Batch, came: _Came, written: StagedWrite | None
) -> tuple[list[Entry], dict[date, list[RuleResult]]]:
    entries: list[Entry] = []
    asked = judges_volume(batch.table.rules)
    volume = landed(batch.path, written, batch.work.days) if asked else {}
    results: dict[date, list[RuleResult]] = {}
    for claim in batch.claims:
        by_day = came.get(claim.day, {})
        read = sum(by_day.values())
        empty = tuple(f.path for f in claim.files if f.size == 0)
        counts = DayCounts(
            read,
            0,
            volume.get(claim.day, read),
            0,
            len(claim.files),
            empty,
            trailing=RowsBefore(volume, claim.day),
            day=claim.day,
            now=batch.now,
        )
        judged = batch.accepting(judge_day(batch.table.rules, counts), claim.day)
        # A repair that leaves a day without rows takes the old ones away all the same. Where
        # nothing is delivered, because what was held is gone, there is nothing to hold either:
        # what was published stays as it is.
        if not claim.files or (batch.work.mode == "rebuild" and not read):
            judged = without_holding(judged)
        results[claim.day] = judged
        entries.append(replace(_with_rows(claim, by_day), **verdict(judged)))
    return entries, results


def _with_rows(claim: Entry, by_day: Mapping[date, int]) -> Entry:
    read = sum(by_day.values())
    return replace(
        claim,
        touched=tuple(Touched(d, n) for d, n in sorted(by_day.items())),
        rows_read=read,
        rows_inserted=read,
        rows_late=sum(n for d, n in by_day.items() if d < claim.day),
        bytes=0 if claim.kind == "retract" else sum(f.size for f in claim.files),
    )


def _came(rows: _Partitions, carried_forward: _Partitions) -> _Came:
    """The rows that came, by landing day and by the day that judges them.

    A repair also rewrites what shared a data file with the repaired rows; that is not counted.
    """
    found: dict[date, dict[date, int]] = {}
    for partition in {*rows, *carried_forward}:
        landed, day = partition
        if landed is not None and day is not None:
            found.setdefault(landed, {})[day] = rows.get(partition, 0) - carried_forward.get(
                partition, 0
            )
    return found


def _rows(commit: Commit) -> _Came:
    partitions = {tuple(map(partition_day, p)): commit.added.get(p, 0) for p in commit.touched}
    noted = commit.note.get("carried", {})
    carried_forward = {
        partition: noted.get("/".join(map(str, partition)), 0) for partition in partitions
    }
    return _came(partitions, carried_forward)


def _unreadable(batch: Batch, missing: Sequence[SourceFile], error: Exception) -> str:
    if missing:
        names = ", ".join(f.path for f in missing[:5])
        what = f"{counted(len(missing), 'file')} vanished or changed while being read: {names}"
    else:
        what = f"a file cannot be read ({what_failed(error)})"
    return (
        f"{batch.table.name}, {', '.join(map(str, batch.work.days))}: {what}. Nothing was loaded; "
        "put the files right or remove them, and run again."
    )
