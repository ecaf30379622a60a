"""One load of an intake: find, claim, write, record. Knows nothing of Dagster.

What is new is found before the batch is claimed, because a source can only be asked by reading
it: a load that finds nothing leaves no trace. The claim is refused if anybody else claimed a batch
meanwhile, so what was found is what is loaded.
"""

from __future__ import annotations

import getpass
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, assert_never

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incremental_assets.changes.by_log import ChangeLog
from incremental_assets.changes.by_sequence import Sequence as SequenceChanges
from incremental_assets.changes.by_snapshot import SnapshotDiff
from incremental_assets.changes.by_timestamp import Timestamp
from incremental_assets.errors import ConflictError, IncrementalAssetsError, LakeError
from incremental_assets.frames import quoted
from incremental_assets.intake.cursor import new_by_sequence, new_by_timestamp
from incremental_assets.intake.found import Found
from incremental_assets.intake.gate import REASONS, is_good
from incremental_assets.intake.intake import (
    BATCH,
    HASH,
    TABLE,
    Intake,
)
from incremental_assets.intake.log import new_by_log
from incremental_assets.intake.snapshot import new_by_snapshot, undo_snapshot
from incremental_assets.intake.target import Settling, Target, ensure_columns, ensure_key
from incremental_assets.intake.write import Written, write
from incremental_assets.lake.beside import put_beside
from incremental_assets.lake.delta_log import (
    bytes_of,
    find_commit,
    open_table,
)
from incremental_assets.lake.publish import publish
from incremental_assets.lake.session import Size, own_session, size_of
from incremental_assets.lake.strategy import DeleteInsert, Merge
from incremental_assets.lake.transaction import Transaction
from incremental_assets.ledger.entry import Entry, Mode, Touched, Window
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.lock import table_lock
from incremental_assets.ledger.settle import record, settle
from incremental_assets.ledger.tail import TableTail
from incremental_assets.ledger.together import CLAIMED_AS, new_token
from incremental_assets.ledger.view import TableHistory
from incremental_assets.sources.stored import FixedSource
from incremental_assets.spark.failure import SPARK_ERRORS, what_failed

_METRICS = (
    "rows_read",
    "rows_inserted",
    "rows_updated",
    "rows_deleted",
    "rows_quarantined",
)
_QUARANTINE = ((BATCH, "long"), (TABLE, "string"), (HASH, "string"))


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load did. `entry` is its row of the ledger; None if there was nothing to do."""

    before: str
    after: str
    entry: Entry | None
    version: int | None
    seconds: float
    notes: tuple[str, ...] = ()


def load(
    intake: Intake,
    spark: SparkSession,
    now: datetime,
    say: Callable[[str], None] = lambda _: None,
) -> Loaded:
    """Load what is new. Raises an IncrementalAssetsError if the job could not be done.

    Nothing is then half-written, and the watermark is where it was.
    """
    started = time.monotonic()
    ledger = Ledger(intake.ledger)
    owner = f"a load of {intake.name}"
    with table_lock(intake.ledger, intake.name, owner, say):
        settling = Settling(intake, lambda batch: undo_snapshot(intake, batch), say)
        tail = settle(ledger, intake.name, settling, now, say)
        target = Target.of(intake, tail.last, _history(ledger, intake))
        _refuse_filled(intake, target)
        target.require_key()
        before = target.last.high if target.last else intake.start
        fixed = intake.source.fix()
        try:
            with (
                own_session(spark, _size(intake, fixed)) as session,
                _found(session, intake, fixed, target, now) as found,
            ):
                if found is None:
                    version = target.version
                    return Loaded(before, before, None, version, time.monotonic() - started)
                for note in found.notes:
                    say(f"{intake.name}: {note}")
                entry = _publish(session, intake, fixed, target, found, ledger, tail, before, now)
                entry = replace(entry, seconds=round(time.monotonic() - started, 3))
                record(ledger, intake.name, [entry])
                version = entry.target_version or target.version
                seconds = time.monotonic() - started
                return Loaded(before, entry.high, entry, version, seconds, found.notes)
        except IncrementalAssetsError:
            raise
        except SPARK_ERRORS as error:
            raise LakeError(
                f"{intake.name}: Spark failed: {what_failed(error)}. Nothing was published that is "
                f"not whole, and the watermark did not move ({intake.source.path}); look into what "
                "is said here, and load again."
            ) from error


@contextmanager
def _found(
    session: SparkSession, intake: Intake, fixed: FixedSource, target: Target, now: datetime
) -> Iterator[Found | None]:
    changes = intake.changes
    match changes:
        case Timestamp():
            found = new_by_timestamp(session, intake, fixed, changes, target, now)
        case SequenceChanges():
            found = new_by_sequence(session, intake, fixed, changes, target, now)
        case ChangeLog():
            found = new_by_log(session, intake, fixed, changes, target, now)
        case SnapshotDiff():
            found = new_by_snapshot(session, intake, fixed, changes, target, now)
        case _:
            assert_never(changes)
    with found as rows:
        yield rows


def _publish(
    session: SparkSession,
    intake: Intake,
    fixed: FixedSource,
    target: Target,
    found: Found,
    ledger: Ledger,
    tail: TableTail,
    before: str,
    now: datetime,
) -> Entry:
    ensure_columns(intake, found)
    target = target.again()
    ensure_key(intake, target)
    claim = _claim(intake, fixed, found, target, ledger, tail, before, now)
    if found.quarantined:
        _set_aside(intake, found, claim.batch)
    if found.prepare is not None:
        found.prepare(claim.batch)
    written = write(session, intake, target, found, claim.batch)
    touched = _touched(intake, written)
    done = replace(claim, state="committed", touched=touched, **_metrics(found, written))
    if not written.changes:
        return done
    note = {
        "batch": claim.batch,
        "metrics": {name: getattr(done, name) for name in _METRICS},
        "touched": {str(each.day): each.rows for each in touched},
        **({CLAIMED_AS: claim.token} if claim.token else {}),
    }
    merges = intake.write.by_key
    publish(
        written.merged.staged,
        Transaction(intake.name, claim.batch, json.dumps(note, separators=(",", ":"))),
        replaced_files=written.merged.replaced,
        replaced_by=written.replaced_by,
        looked_at=written.merged.scope if merges else None,
    )
    commit = find_commit(intake.target, intake.name, claim.batch)
    return replace(done, target_version=commit.version if commit else None)


def _claim(
    intake: Intake,
    fixed: FixedSource,
    found: Found,
    target: Target,
    ledger: Ledger,
    seen: TableTail,
    before: str,
    now: datetime,
) -> Entry:
    """Write the next number to the ledger, unless somebody else did since it was read."""
    expected = seen.last_batch
    number = expected + 1 if expected else target.numbers() + 1
    entry = Entry(
        table=intake.name,
        batch=number,
        day=now.date(),
        state="claimed",
        kind="advance",
        mode=_mode(intake),
        detector=found.after.detector,
        recorded_at=now,
        windows=(Window(intake.source.path, 0, fixed.version or 0),),
        files=found.files,
        bytes=sum(file.size for file in found.files) or fixed.size(),
        who=getpass.getuser(),
        low=before,
        high=found.after.high,
        position=found.after.as_json(),
        token=new_token(),
    )

    def decide(tail: TableTail) -> Sequence[Entry]:
        if tail.last_batch != expected:
            raise ConflictError(
                f"{intake.name}: another load claimed batch {tail.last_batch} meanwhile. Nothing "
                "was published by this one; load again."
            )
        return [entry]

    ledger.transact_on(intake.name, decide)
    return entry


def _set_aside(intake: Intake, found: Found, batch: int) -> None:
    own = F.to_json(F.struct(*(F.col(quoted(n)) for n in found.own)))
    rows = found.rows.where(~is_good()).select(
        F.lit(batch).cast("long").alias(BATCH),
        F.lit(intake.name).alias(TABLE),
        HASH,
        F.col("_file"),
        F.coalesce(F.col("_raw"), own).alias("row"),
        F.col(REASONS).alias("reasons"),
    )
    put_beside(rows, intake.quarantine, intake.quarantine_app, batch, _QUARANTINE)


def _metrics(found: Found, written: Written) -> dict[str, Any]:
    merged = written.merged
    return {
        "rows_read": found.read,
        "rows_inserted": sum(merged.inserted.values()),
        "rows_updated": sum(merged.updated.values()),
        "rows_deleted": merged.deleted,
        "rows_quarantined": found.quarantined,
    }


def _touched(intake: Intake, written: Written) -> tuple[Touched, ...]:
    """The days that were written to, with their rows, where the target is partitioned by one."""
    if len(intake.partition_by) != 1:
        return ()
    replaced = written.replaced_by[1] if written.replaced_by else ()
    days = {day: 0 for day in replaced if isinstance(day, date)}
    for file in written.merged.staged.files:
        with suppress(ValueError):  # the column is no day
            day = date.fromisoformat(file.partition[intake.partition_by[0]] or "")
            days[day] = days.get(day, 0) + file.rows
    return tuple(Touched(day, rows) for day, rows in sorted(days.items()))


def _mode(intake: Intake) -> Mode:
    if intake.write.keeps_versions:
        return "history"
    if isinstance(intake.write, Merge | DeleteInsert):
        return "merge"
    return "append" if intake.appends else "replace"


def _history(ledger: Ledger, intake: Intake) -> TableHistory | None:
    """All that the ledger knows of the table, where the detector needs more than its end."""
    if intake.changes.is_log or intake.changes.is_snapshot:
        return ledger.view().table(intake.name)
    return None


def _size(intake: Intake, fixed: FixedSource) -> Size:
    tables = [path for path in (intake.target, intake.snapshot) if path]
    return size_of(0, [fixed.size(), *map(bytes_of, tables)])


def _refuse_filled(intake: Intake, target: Target) -> None:
    """Raise LakeError where appending could double rows that nobody knows the origin of."""
    if not intake.appends or target.last is not None or intake.start or target.version is None:
        return
    table = open_table(intake.target)
    if table is not None and table.file_uris():
        raise LakeError(
            f"{intake.name}: the target {intake.target} holds rows already, but the ledger "
            f"{intake.ledger} knows no load of it; appending could double them. Nothing was "
            "loaded. Give a primary_key, so that rows are merged; or start_from, the watermark "
            "that the rows reach up to; or another target."
        )
