"""Keeping the lake fast and small while loads go on: no load waits for it, and none fails by it.

Small files of a day are joined, files that nobody needs are removed, logs get checkpoints, rows
that lie in quarantine for too long go, and the ledger's files are joined. No row of a table changes
and no watermark moves, so nothing is stale because of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta

from pyspark.sql import SparkSession

from incremental_assets.delta import quarantine, vacuum
from incremental_assets.delta.compact import (
    Joint,
    discard_other,
    exchange,
    joints,
    stage_joined,
)
from incremental_assets.delta.delta_log import (
    bytes_of,
    checkpoint_of,
    keep_log_short,
    open_table,
    version_of,
)
from incremental_assets.delta.read import DataFile, TableFiles, plain_files
from incremental_assets.engine.batch import quarantine_path
from incremental_assets.engine.since import version_read
from incremental_assets.engine.snapshot_base import base_path
from incremental_assets.engine.superseded import superseded
from incremental_assets.errors import ConflictError, IncrementalAssetsError, LakeError
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger, ledger_path, no_lake
from incremental_assets.ledger.lock import brief_lock
from incremental_assets.ledger.tail import tail_of
from incremental_assets.settings import Settings, local_path
from incremental_assets.spark.failure import SPARK_ERRORS, what_failed
from incremental_assets.spark.load_session import own_session, size_of
from incremental_assets.table import Table
from incremental_assets.upkeep.result import EVERYTHING, Asked, Kept, Step, Upkeep

CHECKPOINT_AT_COMMITS = 10
# Files that are written by one Spark job, and exchanged by one commit.
_AT_ONCE = 32
_OWNER = "maintenance"


@dataclass(frozen=True, slots=True)
class _Place:
    """A Delta table of the lake, and the table by whose lock it is written."""

    name: str
    path: str
    table: Table
    is_quarantine: bool = False


def maintain(
    settings: Settings,
    tables: Sequence[Table],
    spark: Callable[[], SparkSession],
    now: datetime,
    asked: Asked = EVERYTHING,
    say: Callable[[str], None] = lambda _: None,
) -> Upkeep:
    """Do what is asked for these tables, one after the other; `spark` only where files are joined.

    What cannot be done for one of them is told in its result, and the others are done. Raises
    LakeError if there is no lake, and ConflictError if another maintenance of it is under way.
    """
    started = time.monotonic()
    if open_table(ledger_path(settings.lake)) is None:
        raise no_lake(settings.lake)
    keeper = _Keeper(settings, Ledger(ledger_path(settings.lake)), spark, now, asked, say)
    with ExitStack() as held:
        if not asked.dry_run:
            alone = held.enter_context(brief_lock(settings.lake, _OWNER, _OWNER, 0))
            if not alone:
                raise ConflictError(
                    f"Another maintenance of {settings.lake} is under way. Nothing was done; it "
                    "does the same."
                )
        every = [keeper.keep(place) for place in _places(settings, tables)]
        files = keeper.ledger.compact() if "ledger" in asked.steps and not asked.dry_run else None
    places = tuple(kept for kept in every if kept is not None)
    return Upkeep(places, files, time.monotonic() - started)


@dataclass(frozen=True)
class _Keeper:
    settings: Settings
    ledger: Ledger
    spark: Callable[[], SparkSession]
    now: datetime
    asked: Asked
    say: Callable[[str], None] = field(repr=False)

    def keep(self, place: _Place) -> Kept | None:
        """Do what is asked for a place; what fails ends it, and is told. None without a table."""
        started = time.monotonic()
        kept = Kept(place.name)
        steps: dict[Step, Callable[[_Place, Kept], Kept]] = {
            "quarantine": self._tidy,
            "optimize": self._join,
            "checkpoint": self._checkpoint,
            "vacuum": self._vacuum,
        }
        try:
            before = _now(place.path)
            if before is None:
                return None
            files, size, version = before
            kept = Kept(place.name, files, files, size, size, version, version)
            for step, do in steps.items():
                if step in self.asked.steps:
                    kept = do(place, kept)
            if not self.asked.dry_run:
                files, size, version = _now(place.path) or before
                kept = replace(kept, files_after=files, bytes_after=size, version_after=version)
        except IncrementalAssetsError as error:
            kept = replace(kept, failed=f"{place.name}: {error}")
        return replace(kept, seconds=round(time.monotonic() - started, 3))

    def _tidy(self, place: _Place, kept: Kept) -> Kept:
        """Take away and expire rows in quarantine; what cannot be is told, and left."""
        if not place.is_quarantine:
            return kept
        try:
            return self._expire(place, self._drop_superseded(place, kept))
        except IncrementalAssetsError as error:
            why = f"rows are left in quarantine, and left out by whoever reads it: {error}"
            return replace(kept, skipped=(*kept.skipped, why))

    def _drop_superseded(self, place: _Place, kept: Kept) -> Kept:
        if self.asked.dry_run:
            return kept
        outcomes = self.ledger.view().table(place.table.name).outcomes
        left = quarantine.still_there(place.path, superseded(outcomes))
        if left:
            with self._lock(place) as mine:
                if not mine:
                    return _left(kept, "rows are left in quarantine", place)
                quarantine.drop(place.path, left)
        return kept

    def _expire(self, place: _Place, kept: Kept) -> Kept:
        days = self.settings.quarantine_days
        if not days:
            return kept
        before = self.now - timedelta(days=days)
        rows = quarantine.expired(place.path, before)
        if not rows or self.asked.dry_run:
            return replace(kept, rows_expired=rows)
        with self._lock(place) as mine:
            if not mine:
                return _left(kept, "rows are left in quarantine", place)
            quarantine.expire(place.path, before)
        return replace(kept, rows_expired=rows)

    def _join(self, place: _Place, kept: Kept) -> Kept:
        table = plain_files(place.path, version_of(place.path))
        todo = joints(table, self.asked.limits, lambda file: self._is_asked_for(table, file))
        if self.asked.dry_run:
            after = kept.files_before - sum(len(joint.files) - 1 for joint in todo)
            return replace(kept, files_after=after, days=_days(todo))
        for at in range(0, len(todo), _AT_ONCE):
            kept = self._exchange(place, kept, table, todo[at : at + _AT_ONCE])
        return kept

    def _exchange(
        self, place: _Place, kept: Kept, table: TableFiles, some: Sequence[Joint]
    ) -> Kept:
        files = sum(len(joint.files) for joint in some)
        self.say(f"{place.name}: joining {files} files into {len(some)}")
        try:
            size = size_of(0, [sum(joint.size for joint in some)])
            with own_session(self.spark(), size) as session:
                staged = stage_joined(session, table, some)
        except SPARK_ERRORS as error:
            raise LakeError(
                f"Spark failed: {what_failed(error)}. No file was exchanged; run again."
            ) from error
        done: Sequence[Joint] = ()
        with self._lock(place) as mine:
            if mine:
                done = exchange(staged, some)
        discard_other(staged, done)
        if not mine:
            return _left(kept, f"{_named(some)} not joined", place)
        lost = [joint for joint in some if joint not in done]
        if lost:
            why = f"{_named(lost)} not joined: a load wrote some of the files anew meanwhile"
            kept = replace(kept, skipped=(*kept.skipped, why))
        return replace(kept, days=tuple(sorted({*kept.days, *_days(done)})))

    def _checkpoint(self, place: _Place, kept: Kept) -> Kept:
        if self.asked.dry_run:
            version = kept.version_before
            due = version - checkpoint_of(place.path) >= CHECKPOINT_AT_COMMITS
            return replace(kept, checkpoint=version if due else None)
        # What became of an unfinished batch is told by its commit.
        cut = not self._is_unfinished(place.table)
        return replace(kept, checkpoint=keep_log_short(place.path, CHECKPOINT_AT_COMMITS, cut=cut))

    def _vacuum(self, place: _Place, kept: Kept) -> Kept:
        since = self.now - timedelta(days=self.settings.vacuum_days)
        oldest = min(self._claims(), key=lambda claim: claim.recorded_at, default=None)
        if oldest is not None and oldest.recorded_at < since:
            since = oldest.recorded_at  # it may still read what was there then
            why = (
                f"batch {oldest.batch} of {oldest.table} is unfinished since {since:%Y-%m-%d %H:%M}"
            )
            kept = replace(kept, skipped=(*kept.skipped, f"files since then are kept: {why}"))
        files = vacuum.unreferenced(place.path, since)
        if files and not self.asked.dry_run:
            vacuum.announce(place.path, vacuum.version_at(place.path, since))
            files = vacuum.without(place.path, files, self._read_by_loads(place))
            vacuum.drop(place.path, files)
        return replace(kept, removed=len(files), freed=sum(file.size for file in files))

    def _read_by_loads(self, place: _Place) -> set[int]:
        """The versions that loads under way may compare their upstream's newest one with."""
        windows = [w for claim in self._claims() for w in claim.windows if w.low]
        lows = {w.low for w in windows if w.upstream == place.name}
        if not lows:
            return set()
        view = self.ledger.view()
        return {v for low in lows if (v := version_read(view, place.name, low)) is not None}

    def _claims(self) -> Iterator[Entry]:
        """The days of all batches without an outcome: of loads under way, or that died."""
        snapshot = self.ledger.snapshot()
        for name in {file.table for file in snapshot.files}:
            yield from tail_of(snapshot, name).unsettled

    def _is_unfinished(self, table: Table) -> bool:
        return bool(self.ledger.tail(table.name).unsettled)

    @contextmanager
    def _lock(self, place: _Place) -> Iterator[bool]:
        """The right to write a place, unless a load of its table is under way."""
        lake, name = self.settings.lake, place.table.name
        with brief_lock(lake, name, _OWNER, self.asked.patience) as mine:
            # Where there are no locks the ledger alone tells of a load.
            yield mine and (local_path(lake) is not None or not self._is_unfinished(place.table))

    def _is_asked_for(self, table: TableFiles, file: DataFile) -> bool:
        if self.asked.days is None:
            return True
        return bool(table.partition_by) and file.partition[table.partition_by[0]] in self.asked.days


def _places(settings: Settings, tables: Sequence[Table]) -> Iterator[_Place]:
    """Of each table its own Delta table, those beside it, and its quarantine."""
    for table in tables:
        path, aside = f"{settings.lake}/{table.name}", quarantine_path(settings, table)
        yield _Place(table.name, path, table)
        yield _Place(f"{table.name}/_beside", f"{path}/_beside", table)
        yield _Place(f"{table.name}/_base", base_path(path), table)
        name = aside.removeprefix(f"{settings.lake}/")
        yield _Place(name, aside, table, is_quarantine=True)


def _now(path: str) -> tuple[int, int, int] | None:
    """Files, bytes and version; None where there is no table."""
    table = open_table(path)
    return None if table is None else (len(table.file_uris()), bytes_of(path), table.version())


def _days(some: Sequence[Joint]) -> tuple[date, ...]:
    return tuple(sorted({date.fromisoformat(j.place[0]) for j in some if j.place and j.place[0]}))


def _named(some: Sequence[Joint]) -> str:
    return ", ".join(sorted({"/".join(p or "" for p in j.place) or "files" for j in some}))


def _left(kept: Kept, what: str, place: _Place) -> Kept:
    why = f"{what}: a load of {place.table.name} is under way"
    return replace(kept, skipped=(*kept.skipped, why))
