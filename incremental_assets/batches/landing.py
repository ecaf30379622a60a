"""A batch of landed files into a bronze table: every line, as it landed, exactly once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.batches.batch import Batch, Outcome, note
from incremental_assets.batches.bronze import COLUMNS, PARTITIONS, landed_lines
from incremental_assets.errors import SourceError
from incremental_assets.lake.delta_log import Commit, partition_day
from incremental_assets.lake.merge import replace_files_rows
from incremental_assets.lake.publish import publish
from incremental_assets.lake.read import DataFile
from incremental_assets.lake.session import own_session
from incremental_assets.lake.stage import stage
from incremental_assets.ledger.entry import Entry, Touched
from incremental_assets.quality.gate import RuleResult, judge_day
from incremental_assets.quality.rules import DayCounts
from incremental_assets.sources.landed_files import gone
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.spark.failure import SPARK_ERRORS, what_failed
from incremental_assets.table import Table


class LandingBatch:
    """Appends new files; puts the rows of changed files in the place of their old ones.

    The gate of a landing day asks only whether rows came at all, so it is judged by the rows per
    day that the commit itself counts: a delivery without rows publishes nothing either way, and
    the files are read once.
    """

    def columns(self, table: Table) -> Sequence[tuple[str, str]]:
        return COLUMNS

    def partition_by(self, table: Table) -> Sequence[str]:
        return PARTITIONS

    def execute(self, batch: Batch) -> Outcome:
        landed = any(file.size for work in batch.work.days.values() for file in work.files)
        # Empty files bring nothing, but one that was repaired to nothing takes its old rows away.
        restated = batch.work.mode == "rebuild"
        commit = self._write(batch) if landed or restated else None
        entries, results = _judge(batch.table, batch.claims, commit)
        return Outcome(entries, results)

    def settled(self, table: Table, claims: Sequence[Entry], commit: Commit) -> Sequence[Entry]:
        return _judge(table, claims, commit)[0]

    def _write(self, batch: Batch) -> Commit | None:
        """The commit; None if the files hold no line."""
        files = [file for work in batch.work.days.values() for file in work.files]
        with own_session(batch.spark(), batch.size) as session:
            try:
                rows = landed_lines(session, batch, files)
                if batch.work.mode == "rebuild":
                    self._replace(session, batch, rows, files)
                    return batch.commit()
                staged = stage(rows, batch.path, batch.number, self.partition_by(batch.table))
            except SPARK_ERRORS as error:
                missing = gone(batch.settings.landing, files)
                if missing or "FAILED_READ_FILE" in str(error):
                    raise SourceError(_unreadable(batch, missing, error)) from error
                raise
        if not staged.files:
            return None
        publish(staged, batch.transaction())
        return batch.commit()

    def _replace(
        self, session: SparkSession, batch: Batch, rows: DataFrame, files: Sequence[SourceFile]
    ) -> None:
        def of_these_days(file: DataFile) -> bool:
            return file.partition["_landing_day"] in batch.work.days

        doomed = F.col("_file").isin([file.path for file in files])
        written, carried = replace_files_rows(
            session, rows, batch.path, batch.number, doomed, of_these_days
        )
        transaction = replace(batch.transaction(), note=_note(batch, carried))
        publish(written.staged, transaction, replaced_files=written.replaced)


def _judge(
    table: Table, claims: Sequence[Entry], commit: Commit | None
) -> tuple[list[Entry], dict[date, list[RuleResult]]]:
    rows = _rows(commit) if commit else {}
    entries: list[Entry] = []
    results: dict[date, list[RuleResult]] = {}
    for claim in claims:
        by_day = rows.get(claim.day, {})
        read = sum(by_day.values())
        empty = sum(1 for f in claim.files if f.size == 0)
        counts = DayCounts(read, 0, read, 0, len(claim.files), empty)
        results[claim.day] = judge_day(table.rules, counts)
        failed = [r for r in results[claim.day] if r.severity == "fail" and not r.passed]
        # A repair that leaves a day without rows has still taken the old ones away.
        held = bool(failed) and not by_day
        entries.append(
            replace(
                claim,
                state="held" if held else "committed",
                held_by="; ".join(f"{r.rule}: {r.found}" for r in failed) if held else "",
                touched=tuple(Touched(d, n) for d, n in sorted(by_day.items())),
                rows_read=read,
                rows_inserted=read,
                rows_late=sum(n for d, n in by_day.items() if d < claim.day),
                bytes=sum(f.size for f in claim.files),
                target_version=commit.version if commit else None,
            )
        )
    return entries, results


def _rows(commit: Commit) -> dict[date, dict[date, int]]:
    """The rows that came, by landing day and by the day that judges them.

    A repair also writes anew what lay in one data file with the repaired rows; that did not come.
    """
    rows: dict[date, dict[date, int]] = {}
    for partition in commit.touched:
        landed, day = map(partition_day, partition)
        if landed is not None and day is not None:
            carried = commit.note.get("carried", {}).get(f"{landed}/{day}", 0)
            rows.setdefault(landed, {})[day] = commit.added.get(partition, 0) - carried
    return rows


def _note(batch: Batch, carried: Mapping[tuple[date | None, ...], int]) -> str:
    """The batch's note with the rows that a repair only carried over."""
    said = json.loads(note(batch.number, ()))
    said["carried"] = {f"{landed}/{day}": rows for (landed, day), rows in carried.items() if rows}
    return json.dumps(said, separators=(",", ":"))


def _unreadable(batch: Batch, missing: Sequence[SourceFile], error: Exception) -> str:
    if missing:
        names = ", ".join(f.path for f in missing[:5])
        what = f"{len(missing)} files vanished or changed while they were read: {names}"
    else:
        what = f"a file cannot be read ({what_failed(error)})"
    return (
        f"{batch.table.name}, {', '.join(map(str, batch.work.days))}: {what}. Nothing was loaded; "
        "put the files right or remove them, and run again."
    )
