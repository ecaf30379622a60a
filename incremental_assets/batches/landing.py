"""A batch of landed files into a bronze table: every line, as it landed, exactly once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date

from pyspark.sql import DataFrame, SparkSession

from incremental_assets.batches.batch import Batch, Outcome, note, verdict
from incremental_assets.batches.bronze import COLUMNS, PARTITIONS, landed_lines
from incremental_assets.batches.volume import Before, judges_volume, landed
from incremental_assets.errors import SourceError
from incremental_assets.lake.delta_log import Commit, partition_day
from incremental_assets.lake.merge import Merged, replace_files_rows
from incremental_assets.lake.publish import publish
from incremental_assets.lake.read import DataFile
from incremental_assets.lake.session import own_session
from incremental_assets.lake.stage import discard, stage
from incremental_assets.ledger.entry import Entry, Touched
from incremental_assets.quality.judge import RuleResult, judge_day
from incremental_assets.quality.rules import DayCounts
from incremental_assets.sources.landed_files import gone
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.spark.failure import SPARK_ERRORS, what_failed
from incremental_assets.table import Table

_Places = Mapping[tuple[date | None, ...], int]
_Came = Mapping[date, Mapping[date, int]]


class LandingBatch:
    """Appends new files; puts the rows of changed files in the place of their old ones.

    The gate of a landing day judges its delivery by the rows that were staged, so the files are
    read once, and a day that fails is not published: its files stay where they landed.
    """

    def columns(self, table: Table) -> Sequence[tuple[str, str]]:
        return COLUMNS

    def partition_by(self, table: Table) -> Sequence[str]:
        return PARTITIONS

    def execute(self, batch: Batch) -> Outcome:
        landed = any(file.size for work in batch.work.days.values() for file in work.files)
        # Empty files bring nothing, but one that was repaired to nothing takes its old rows away.
        restated = batch.work.mode == "rebuild"
        written, carried = self._staged(batch) if landed or restated else (None, {})
        came = _came(written.staged.rows, carried) if written else {}
        entries, results = _judge(batch, came, written)
        if written is None:
            return Outcome(entries, results)
        good = {entry.day for entry in entries if entry.state == "committed"}
        staged = written.staged.only("_landing_day", good)
        discard(written.staged.without(staged))
        replaced = [path for path in written.replaced if _landing_day_of(path) in good]
        if not (staged.files or replaced):
            return Outcome(entries, results)
        transaction = replace(batch.transaction(), note=_note(batch, entries, carried))
        publish(staged, transaction, replaced_files=replaced)
        return Outcome(self.settled(batch.table, entries, batch.commit()), results)

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

    def _staged(self, batch: Batch) -> tuple[Merged, _Places]:
        """What the files hold, staged, and the rows that a repair only carries over."""
        files = [file for work in batch.work.days.values() for file in work.files]
        with own_session(batch.spark(), batch.size) as session:
            try:
                rows = landed_lines(session, batch, files)
                if batch.work.mode == "rebuild":
                    return _replacing(session, batch, rows, files)
                if batch.size == "medium":  # each task would write a file for each of the days
                    rows = rows.hint("rebalance", *PARTITIONS)
                staged = stage(rows, batch.path, batch.folder, self.partition_by(batch.table))
            except SPARK_ERRORS as error:
                missing = gone(batch.settings.landing, files)
                if missing or "FAILED_READ_FILE" in str(error):
                    raise SourceError(_unreadable(batch, missing, error)) from error
                raise
        return Merged(staged, ()), {}


def _replacing(
    session: SparkSession, batch: Batch, rows: DataFrame, files: Sequence[SourceFile]
) -> tuple[Merged, _Places]:
    def of_these_days(file: DataFile) -> bool:
        return file.partition["_landing_day"] in batch.work.days

    paths = [file.path for file in files]
    return replace_files_rows(
        session, rows, batch.path, batch.folder, "_file", paths, of_these_days
    )


def _judge(
    batch: Batch, came: _Came, written: Merged | None
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
            trailing=Before(volume, claim.day),
            day=claim.day,
            now=batch.now,
        )
        results[claim.day] = batch.accepting(judge_day(batch.table.rules, counts), claim.day)
        outcome = verdict(results[claim.day])
        # A repair that leaves a day without rows takes the old ones away all the same.
        if batch.work.mode == "rebuild" and not read:
            outcome = verdict(())
        entries.append(replace(_with_rows(claim, by_day), **outcome))
    return entries, results


def _with_rows(claim: Entry, by_day: Mapping[date, int]) -> Entry:
    read = sum(by_day.values())
    return replace(
        claim,
        touched=tuple(Touched(d, n) for d, n in sorted(by_day.items())),
        rows_read=read,
        rows_inserted=read,
        rows_late=sum(n for d, n in by_day.items() if d < claim.day),
        bytes=sum(f.size for f in claim.files),
    )


def _came(rows: _Places, carried: _Places) -> _Came:
    """The rows that came, by landing day and by the day that judges them.

    A repair also writes anew what lay in one data file with the repaired rows; that did not come.
    """
    found: dict[date, dict[date, int]] = {}
    for place in {*rows, *carried}:
        landed, day = place
        if landed is not None and day is not None:
            found.setdefault(landed, {})[day] = rows.get(place, 0) - carried.get(place, 0)
    return found


def _rows(commit: Commit) -> _Came:
    places = {tuple(map(partition_day, p)): commit.added.get(p, 0) for p in commit.touched}
    said = commit.note.get("carried", {})
    carried = {place: said.get("/".join(map(str, place)), 0) for place in places}
    return _came(places, carried)


def _note(batch: Batch, entries: Sequence[Entry], carried: _Places) -> str:
    """The batch's note with the rows that a repair only carried over."""
    said = json.loads(note(batch.number, entries))
    said["carried"] = {"/".join(map(str, place)): rows for place, rows in carried.items() if rows}
    return json.dumps(said, separators=(",", ":"))


def _landing_day_of(path: str) -> date:
    """The landing day of a data file, whose folder names it."""
    return date.fromisoformat(path.rsplit("_landing_day=", 1)[1][: len("2017-01-05")])


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
