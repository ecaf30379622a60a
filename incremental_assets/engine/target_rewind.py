"""Lowering the watermark of a target: the next load reads its source again from there.

What the target holds is known by its hash and not loaded twice, and the events of a log change
nothing the second time. So a rewind brings what the loads since have missed: rows that came below
the watermark, files of a log that were repaired in a way that did not show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from incremental_assets.changes.target_state import QUARANTINE_FROM, START
from incremental_assets.engine.settling import TargetSettling
from incremental_assets.engine.target import TargetTable, request_of
from incremental_assets.errors import DefinitionError, SourceError, WatermarkError
from incremental_assets.ledger.entry import Entry, FileEntry
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.lock import table_lock
from incremental_assets.ledger.settle import record_decision, settle
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.settings import user_name

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class RewoundTarget:
    """A target whose watermark was lowered to what it was after batch `to`.

    `watermark` is where the next load goes on, "" for the beginning of the source; `files` are
    those of a change log that it reads again.
    """

    table: str
    to: int
    watermark: str
    files: tuple[str, ...] = ()


def rewind_target(
    target: TargetTable,
    to: int | datetime,
    why: str,
    now: datetime,
    log: Callable[[str], None],
) -> RewoundTarget:
    """Record that the source is to be read again from where batch `to` left off.

    `to` is a batch (0: before the first), or a moment: the last batch that was recorded by then.
    Raises WatermarkError where there is nothing to rewind, DefinitionError for a target that would
    be wrong after it, and SourceError for a log that lacks a file that is to be read again.
    """
    _refuse(target, why)
    ledger = Ledger(target.ledger)
    with table_lock(target.ledger, target.name, f"a rewind of {target.name}", log):
        settle(ledger, target.name, TargetSettling.of(target, log), now, log)
        history = ledger.view_if_any().table(target.name)
        number = _batch_of(history, to, now)
        entry = _entry(target, history, number, why.strip(), now)
        record_decision(ledger, target.name, history.last_batch, [entry], "rewound")
    return RewoundTarget(target.name, number, entry.high, tuple(f.path for f in entry.files))


def _refuse(target: TargetTable, why: str) -> None:
    if not isinstance(why, str) or not why.strip():
        raise DefinitionError("A rewind needs a reason, for whoever reads the ledger later.")
    if target.changes.why_not_again:
        raise DefinitionError(
            f"{target.name}: {target.changes.why_not_again}. Load again: it reads what is there."
        )
    if target.write.replaces_by_batch:
        raise DefinitionError(
            f"{target.name}: {target.write} replaces loaded rows by those of a load, and "
            "rows that are loaded already would not be among them: they would be lost. Load into "
            "another target, under another table_name."
        )


def _batch_of(history: TableHistory, to: int | datetime, now: datetime) -> int:
    if isinstance(to, datetime):
        if to.tzinfo is None:
            raise DefinitionError(f"{history.table}: {to} has no time zone; name it, as UTC.")
        if to > now:
            raise WatermarkError(f"{history.table}: {to.isoformat()} is in the future.")
        to = max((e.batch for e in history.loads if e.recorded_at <= to), default=0)
    if not isinstance(to, int) or isinstance(to, bool):
        raise DefinitionError(
            f"{history.table}: {to!r} is neither the number of a batch nor a datetime. "
            "Name the batch that is to be the last again (0: none), or a datetime with its zone."
        )
    last = max((e.batch for e in history.loads), default=0)
    if to < 0 or to > last:
        raise WatermarkError(
            f"{history.table} has no batch {to}: its last is {last}. A watermark is only ever "
            "lowered by hand; to load what is new, load."
        )
    if not any(e.batch > to for e in history.committed):
        raise WatermarkError(
            f"{history.table}: nothing was loaded after batch {to}, so there is nothing to rewind."
        )
    return to


def _entry(
    target: TargetTable, history: TableHistory, number: int, why: str, now: datetime
) -> Entry:
    last = history.committed[-1]
    before = next((e for e in reversed(history.committed) if e.batch <= number), None)
    request = request_of(target, target.state.with_ledger(last, history), now)
    first = replace(request, state=replace(request.state, last=before))
    changes = target.changes
    now_at, then_at = changes.position(request), changes.position(first)
    position = changes.rewound(now_at, then_at)
    known = {QUARANTINE_FROM: request.state.quarantine_from, START: request.start}
    others = {n: v for n, v in position.state.items() if n not in known}
    position = replace(position, state={**others, **{n: v for n, v in known.items() if v}})
    since = [e for e in history.committed if e.batch > number and e.kind != "rewind"]
    files = {file.path: file for e in since for file in e.files}
    _require_there(target, list(files.values()), {file.path for file in request.source.files})
    return Entry(
        table=target.name,
        batch=history.last_batch + 1,
        day=now.date(),
        state="committed",
        kind="rewind",
        mode=target.write.mode,
        detector=position.detector,
        recorded_at=now,
        windows=last.windows,
        files=tuple(files.values()),
        affects=(),
        low=last.high,
        high=position.high,
        position=position.as_json(),
        who=user_name(),
        why=why,
    )


def _require_there(target: TargetTable, files: Sequence[FileEntry], there: set[str]) -> None:
    """Raise SourceError for files that are to be read again and are missing."""
    missing = [file.path for file in files if file.path not in there]
    if missing:
        shown = ", ".join(missing[:_SHOWN]) + (", …" if len(missing) > _SHOWN else "")
        raise SourceError(
            f"{target.name}: {len(missing)} of the {len(files)} files of the log that are to be "
            f"read again are missing from {target.source.path}: {shown}. Nothing was rewound: "
            "restore them, or rewind to a later batch."
        )
