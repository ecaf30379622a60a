"""The steps of a batch of a loader's target."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import ClassVar

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets import plurals
from incremental_assets.changes.detector import NewRows, SourceWindow
from incremental_assets.changes.position import FINGERPRINT, Position
from incremental_assets.changes.target_state import QUARANTINE_FROM, START, TargetState
from incremental_assets.delta.columns import HASH
from incremental_assets.delta.delta_log import find_commit
from incremental_assets.delta.delta_table import bytes_of
from incremental_assets.delta.publish import publish
from incremental_assets.delta.read import TableFiles, plain_files
from incremental_assets.delta.side_table import last_number
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.delta.transaction import Transaction
from incremental_assets.engine.conformed import conformed
from incremental_assets.engine.days_read_again import with_rows_of_days
from incremental_assets.engine.load import REPAIR, Steps
from incremental_assets.engine.put_in_quarantine import does_leave, put_of_target
from incremental_assets.engine.target import TargetTable, request_of
from incremental_assets.engine.target_note import commit_note, touched_days
from incremental_assets.engine.target_table import (
    ensure_columns,
    ensure_key,
    require_looked_up,
)
from incremental_assets.errors import ConflictError, IncrementalAssetsError, LakeError, SourceError
from incremental_assets.frames import Frames
from incremental_assets.ledger.consistency import new_token
from incremental_assets.ledger.entry import Entry, Kind, Window
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.settle import record
from incremental_assets.ledger.tail import TableTail
from incremental_assets.quality.examples import examples
from incremental_assets.quality.gate import Counted, count
from incremental_assets.quality.judge import RuleResult, in_words, judge_target, require_passed
from incremental_assets.quality.reasons import is_good
from incremental_assets.settings import user_name
from incremental_assets.sources.json_documents import broken_document
from incremental_assets.spark.failure import what_failed
from incremental_assets.spark.load_session import batch_frames, size_of
from incremental_assets.spark.optional_jars import jars_of
from incremental_assets.writes.destination import ChangeSet, Destination
from incremental_assets.writes.strategy import require_completed


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load did. `entry` is its row of the ledger; None if there was nothing to do."""

    before: str
    after: str
    entry: Entry | None
    version: int | None
    seconds: float
    notes: tuple[str, ...] = ()
    checks: tuple[RuleResult, ...] = ()


@dataclass(frozen=True)
class _Judged:
    """The rows that are new, what each rule found of them, and what is logged."""

    new: NewRows
    checks: tuple[RuleResult, ...]
    notes: tuple[str, ...]


class TargetSteps(Steps[SourceWindow, _Judged, Loaded]):
    """Reads what is new in the source of a target, and claims a batch when there is some."""

    claims_before_read: ClassVar[bool] = False
    kind: ClassVar[Kind] = "advance"

    def __init__(
        self,
        target: TargetTable,
        state: TargetState,
        ledger: Ledger,
        tail: TableTail,
        spark: SparkSession,
        now: datetime,
        log: Callable[[str], None],
        started: float,
    ) -> None:
        self._target = target
        self._ledger = ledger
        self._tail = tail
        self._spark = spark
        self._now = now
        self._log = log
        self._started = started
        self.before = state.last.high if state.last else target.start
        self._request = request_of(target, state, now)
        self._claim: Entry | None = None
        self._new: NewRows | None = None
        self._releases = False

    def number(self) -> int:
        return self._claimed.batch

    def frames(self) -> Frames:
        paths = [path for path in (self._target.path, self._target.snapshot) if path]
        size = size_of(0, [self._request.source.size(), *map(bytes_of, paths)])
        needs = self._request.source.needs
        jars = jars_of(needs, self._target.cache()) if needs else []
        path = self._target.path
        return batch_frames(lambda: self._spark, lambda: size, lambda: jars, path=path)

    def read(self, frames: Frames) -> SourceWindow | None:
        return self._target.changes.read(self._request, frames)

    def gate(self, frames: Frames, read: SourceWindow) -> _Judged | None:
        target = self._target
        deletes = None if read.live is None else ~read.live
        counted = count(read.rows, target.rules, None, None, deletes=deletes, values=read.values)
        self._request.source.require_read({})
        checks = self._checks(read, counted, deletes)
        require_passed(target.name, checks)
        new = self._advanced(frames, read, counted)
        if new is None:
            return None
        new = with_rows_of_days(target, self._request.state, frames, new)
        self._new, self._releases = new, self._does_release(frames, read, new)
        warned = [in_words(r) for r in checks if r.severity == "warn" and not r.passed]
        reasons = counted.whole.reasons.items()
        by_reason = sorted(
            f"{plurals.counted(rows, 'row')} quarantined: {reason}" for reason, rows in reasons
        )
        notes = (*warned, *by_reason, *self._request.source.notes, *frames.notes, *new.notes)
        return _Judged(new, checks, notes)

    def claim(self) -> None:
        """Write the next number to the ledger, unless another run did since it was read."""
        target, source, tail = self._target, self._request.source, self._tail
        assert self._new is not None
        new, expected = self._new, tail.last_batch
        ensure_columns(target, new)
        self._request = replace(self._request, state=self._request.state.with_table())
        ensure_key(target, self._request.state)
        last = expected or last_number(target.path, target.state.quarantine.path, target.name)
        number = last + 1
        entry = Entry(
            table=target.name,
            batch=number,
            day=self._now.date(),
            state="claimed",
            kind=self.kind,
            mode=target.write.mode,
            detector=new.after.detector,
            recorded_at=self._now,
            windows=(Window(source.path, 0, source.height),),
            files=new.files,
            bytes=sum(file.size for file in new.files) or source.size(),
            who=user_name(),
            low=self.before,
            high=new.after.high,
            position=self._after(new, number).as_json(),
            token=new_token(),
        )

        def decide(seen: TableTail) -> Sequence[Entry]:
            if seen.last_batch != expected:
                raise ConflictError(
                    f"{target.name}: another load claimed batch {seen.last_batch} meanwhile. "
                    "Nothing was published by this one; load again."
                )
            return [entry]

        self._ledger.transact_on(target.name, decide)
        self._claim = entry

    @property
    def _claimed(self) -> Entry:
        assert self._claim is not None
        return self._claim

    def quarantine(self, frames: Frames, read: SourceWindow, judged: _Judged) -> None:
        state, new = self._request.state, judged.new
        for note in judged.notes:
            self._log(f"{self._target.name}: {note}")
        if new.quarantined or self._releases:
            leaving = self._leaving(frames, read, new) if self._releases else None
            put_of_target(state, new, self.number(), self._now, leaving)

    def stage(self, frames: Frames, read: SourceWindow, judged: _Judged) -> StagedWrite | None:
        target, new, state = self._target, judged.new, self._request.state
        first = target.changes.before_commit(self._request, frames, new, self.number())
        every = new.every
        changes = ChangeSet(
            conformed(new.rows.where(is_good()), state.columns),
            new.own,
            new.deletes,
            None if every is None else conformed(every.where(is_good()), state.columns),
            new.good,
        )
        require_completed(target.write, target.name, changes)
        assert state.version is not None
        there = plain_files(target.path, state.version)
        write = target.write.stage(frames, self._destination(there), changes)
        require_looked_up(target, write, there)
        return replace(write, side=(*(first or ()), *write.side))

    def commit(self, read: SourceWindow, judged: _Judged, write: StagedWrite | None) -> Loaded:
        assert write is not None
        target, new, claim = self._target, judged.new, self._claimed
        touched = touched_days(target, write)
        done = replace(
            claim,
            state="committed",
            touched=touched,
            rows_read=new.read,
            rows_inserted=write.rows_inserted,
            rows_updated=write.rows_updated,
            rows_deleted=write.deleted,
            rows_quarantined=new.quarantined,
        )
        if write.changes:
            publish(
                write.staged,
                Transaction(target.name, claim.batch, commit_note(done, touched)),
                replaced_files=write.replaced,
                replaced_by=write.replaced_by,
                searched_files=write.searched_files if target.write.by_key else None,
            )
            commit = find_commit(target.path, target.name, claim.batch)
            done = replace(done, target_version=commit.version if commit else None)
        version = done.target_version or self._request.state.version
        return Loaded(self.before, done.high, done, version, 0.0, judged.notes, judged.checks)

    def record(self, outcome: Loaded) -> Loaded:
        assert outcome.entry is not None
        seconds = time.monotonic() - self._started
        entry = replace(outcome.entry, seconds=round(seconds, 3))
        record(self._ledger, self._target.name, [entry])
        if self._releases:
            after = replace(self._request.state, last=entry)
            after.quarantine.remove_outdated(after.outdated, self._log)
        return replace(outcome, entry=entry, seconds=seconds)

    def explained(self, error: Exception) -> IncrementalAssetsError:
        known = self._request.source.explained(error)
        if known is not None:
            return known
        broken = broken_document(error)
        if broken:
            return SourceError(f"{self._target.name}: {broken}. {REPAIR}")
        return LakeError(
            f"{self._target.name}: Spark failed: {what_failed(error)}. Nothing was published in "
            "part, and the watermark did not move "
            f"({self._target.source.path}); investigate this error, and load again."
        )

    def _advanced(self, frames: Frames, read: SourceWindow, counted: Counted) -> NewRows | None:
        return self._target.changes.advance(self._request, frames, read, counted)

    def _after(self, new: NewRows, number: int) -> Position:
        """The position after the batch, with the further state that the ledger keeps."""
        counts_from = number if self._releases else self._request.state.quarantine_from
        state = {**new.after.state, **({QUARANTINE_FROM: counts_from} if counts_from else {})}
        if self._request.start:
            state[START] = self._request.start
        whole = not self._target.changes.reads_once and self._request.is_all(new.read)
        if self.kind == "advance" and whole and FINGERPRINT not in state:
            state[FINGERPRINT] = self._request.source.fingerprint
        return replace(new.after, state=state)

    def _leaving(self, frames: Frames, read: SourceWindow, new: NewRows) -> Sequence[DataFrame]:
        """The rows, by `_hash`, that leave quarantine when the batch is committed."""
        if new.identity is None:
            return []
        return [read.rows.where(is_good()).select(F.col(new.identity).alias(HASH))]

    def _does_release(self, frames: Frames, read: SourceWindow, new: NewRows) -> bool:
        leaving = self._leaving(frames, read, new)
        return does_leave(self._request.state, frames.session, leaving)

    def _checks(
        self, read: SourceWindow, counted: Counted, deletes: Column | None
    ) -> tuple[RuleResult, ...]:
        target = self._target
        broken = sum(counted.broken.values())
        found = (
            examples(read.rows, target.rules, None, target.key, deletes, broken=broken)
            if broken
            else {}
        )
        return tuple(judge_target(counted, target.rules, found))

    def _destination(self, there: TableFiles) -> Destination:
        target, state = self._target, self._request.state
        return Destination(
            target.name,
            target.path,
            self.number(),
            target.key,
            target.changes.order,
            there.partition_by,  # it may have been there before, and is partitioned as it is
            state.known_types(),
            truncates=target.changes.finds_truncates,
        )
