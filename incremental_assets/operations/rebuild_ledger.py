"""Rebuilding the ledger from the tables' logs, where it was lost or is of another time.

The logs have numbers, tokens, moments, and which days each batch published and held with which
counts. They do not have what was read: upstream windows, files, positions. So each table is rewound
to before its first batch: the next run reads its input again and replaces the rows, as after any
rewind. That loses nothing and doubles nothing; it costs a load of everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import date, datetime

from incremental_assets.delta.delta_log import ensure_number, transaction
from incremental_assets.delta.delta_table import open_table
from incremental_assets.delta.side_table import last_number
from incremental_assets.delta_protocol.log_files import DELTA_LOG
from incremental_assets.engine.batch import quarantine_of
from incremental_assets.errors import LakeError, LedgerError
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.ledger.entry import Entry, FileEntry, State
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.lock import table_lock
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.ledger.view import LedgerView
from incremental_assets.operations.log_entries import (
    days_in_quarantine,
    entries_from_log,
    landed_files,
    rebuild_entry,
)
from incremental_assets.operations.rewind import Rewound, rewind_entries
from incremental_assets.plan.consistent import log_state_of
from incremental_assets.settings import Settings, user_name
from incremental_assets.storage import files_below, remove
from incremental_assets.table import Table

WHY = "the ledger was rebuilt from the table's log"


@dataclass(frozen=True)
class Rebuilt:
    """What the ledger has of a table now: the batches of its log, and the days to load again."""

    table: str
    batches: int
    days: tuple[date, ...]


@dataclass(frozen=True)
class Done:
    """The tables whose entries were rebuilt, and the path of the old ledger; "": none."""

    tables: tuple[Rebuilt, ...]
    former: str


def require_a_lake(lakehouse: Lakehouse) -> None:
    """Raises LakeError where there is no ledger, table or quarantine, readable or not."""
    settings = lakehouse.settings
    tables = (f"{settings.lake}/{table.name}" for table in lakehouse.tables)
    quarantines = (quarantine_of(settings, table).path for table in lakehouse.tables)
    paths = (lakehouse.ledger.path, *tables, *quarantines)
    if not any(files_below(f"{path}/{DELTA_LOG}") for path in paths):
        raise LakeError(
            f"There is no lake at {settings.lake}: it has no ledger and no tables, so nothing was "
            "rebuilt. Set INCREMENTAL_ASSETS_LAKE to where the tables are."
        )


def rebuild_ledger(lakehouse: Lakehouse, tables: Sequence[Table]) -> Done:
    """Rebuild the ledger's entries of these tables from their logs; the old ledger is kept.

    A batch that was in progress is abandoned first. Manual decisions (accepted, dropped, rewound)
    and when days were held remain in the old ledger alone. Waits for loads of these tables that are
    in progress, and of those that append what they read of them.
    Raises LedgerError if the old ledger cannot be read and only some tables are named, or where a
    table that is not named would append rows for a second time, and LakeError where there is
    nothing to rebuild it from.
    """
    require_a_lake(lakehouse)
    ledger, lake, log = Ledger(lakehouse.ledger.path), lakehouse.settings.lake, lakehouse.log
    readers = _appending_readers(lakehouse, tables)
    with ExitStack() as locks:
        for table in sorted([*tables, *readers], key=lambda table: table.name):
            owner = "a rebuild of the ledger"
            locks.enter_context(table_lock(lake, table.name, owner, log))
        now, made = lakehouse.now(), list[LedgerView]()

        def decide(view: LedgerView) -> Sequence[Entry]:
            entries = list[Entry]()
            for table in tables:
                own = _entries(lakehouse.settings, table, view, now)
                entries += own
                ahead = {**view.ahead, table.name: _history(table, own)}
                view = LedgerView(None, view.tables, ahead)
            made.append(view)
            return entries

        is_readable = _is_readable(ledger, all_of_them=len(tables) == len(lakehouse.tables))
        if is_readable:
            _require_appending_readers(lakehouse, ledger, tables, readers)
        former = ledger.back_up(now)
        if not is_readable:
            remove(ledger.path)
        ledger.replace_tables([table.name for table in tables], decide)
    for name in (table.name for table in tables):
        returned = _to_retract(made[-1].table(name))
        if returned:
            log(
                f"{name} is older than the retraction of {', '.join(returned)}, and has these rows "
                f"again: the next load of {name} removes them. Load it before the tables that read "
                "it."
            )
    return Done(tuple(_rebuilt(made[-1].table(table.name)) for table in tables), former)


def _is_readable(ledger: Ledger, *, all_of_them: bool) -> bool:
    """Whether the ledger can be read, or is not there. Raises LedgerError where it matters."""
    try:
        view = ledger.view_if_any()
        for name in view.tables:
            _ = view.table(name).last_batch
    except LedgerError as error:
        if all_of_them:
            return False
        raise LedgerError(
            f"{error} Its entries of the other tables could not be read, so nothing was rebuilt: "
            "`incremental-assets ledger rebuild` without a TABLE rebuilds it for all."
        ) from error
    return True


def _appending_readers(lakehouse: Lakehouse, tables: Sequence[Table]) -> list[Table]:
    """The other tables that append what they read of these."""
    named = {table.name for table in tables}
    return [
        table
        for table in lakehouse.tables
        if table.write.appends
        and table.name not in named
        and any(read.table.name in named for read in table.upstreams)
    ]


def _require_appending_readers(
    lakehouse: Lakehouse, ledger: Ledger, tables: Sequence[Table], readers: Sequence[Table]
) -> None:
    """Raise LedgerError where a table is older than one that appends what it reads of it.

    What the older table lacks is loaded again under new numbers, so the other one would append
    these rows once more, unless it is rebuilt with it. Its unfinished batch is given its outcome
    first: only the table's log shows whether it was published.
    """
    for reader in readers:
        if ledger.tail(reader.name).unsettled:
            lakehouse.settle(reader)
    view, named = ledger.view_if_any(), {table.name for table in tables}
    for table in tables:
        read_by = {
            reader.name: max(view.table(reader.name).watermarks(table.name).values(), default=0)
            for reader in readers
            if any(read.table.name == table.name for read in reader.upstreams)
        }
        log = log_state_of(lakehouse.settings, table)
        last = log.last or 0
        behind = [name for name, high in read_by.items() if high > last]
        is_whole = log.is_there and log.last is None  # as far as can be known
        if not behind or is_whole or not ledger.last_in_log(table.name, last):
            continue
        path = f"{lakehouse.settings.lake}/{table.name}"
        names = " ".join(t.name for t in lakehouse.tables if t.name in {*named, *behind})
        raise LedgerError(
            f"{path} holds no batch after {last}, and {' and '.join(behind)} appended rows of "
            "later ones: the next run would load these again and append them for a second time. "
            f"Nothing was rebuilt. Restore {table.name} from a backup that has them; or rebuild "
            "all of these tables, and the next run replaces the rows by those that can still be "
            f"read:\n  incremental-assets ledger rebuild {names}"
        )


def _entries(settings: Settings, table: Table, view: LedgerView, now: datetime) -> list[Entry]:
    """All entries of a table; none of one that was never loaded."""
    path, old = f"{settings.lake}/{table.name}", view.table(table.name)
    there = open_table(path) is not None
    if old.unsettled:
        ensure_number(path, table.name, old.unsettled[0].batch)  # its run may be alive
    logged: list[Entry] = []
    if there:
        in_log = transaction(path, table.name)
        logged = entries_from_log(path, table, in_log, _upstream_days(table, view), WHY)
    files = landed_files(path, table) if there and table.has_landed_paths else {}
    logged = [_without_files_that_landed_again(entry, files) for entry in logged]
    last = max([_last_number(settings, table, view), *(e.batch for e in logged)])
    if not last:
        return []
    # Rows in quarantine are outdated once their day is rebuilt, also one never published.
    quarantined = days_in_quarantine(quarantine_of(settings, table).path)
    # What was judged of a held day is not known, so nothing would evaluate it again.
    held = dict.fromkeys(_history(table, logged).held, 0)
    outdating = [
        _marked(table, last + 1, day, "committed", now, rows)
        for day, rows in sorted({**held, **quarantined}.items())
    ]
    kept = _only_in_ledger(old, logged, files, last + 2)
    history = _history(table, [*logged, *outdating, *kept])
    days = tuple(sorted(history.last_committed))
    if table.why_not_again:
        days = ()
    if not (outdating or days):  # a batch that did nothing, after which numbers go on
        outdating = [_marked(table, last + 1, now.date(), "abandoned", now, 0)]
    again = rewind_entries(table, history, Rewound(table.name, 0, days), WHY, now) if days else []
    known = {(entry.day, file.path): file for entry in kept for file in entry.files}
    return [
        *logged,
        *outdating,
        *(replace(entry, recorded_at=now) for entry in kept),
        *(
            replace(
                entry,
                batch=last + 2 + len(kept),
                files=tuple(known.get((entry.day, f.path), f) for f in files.get(entry.day, ())),
            )
            for entry in again
        ),
    ]


def _without_files_that_landed_again(
    entry: Entry, landed: Mapping[date, tuple[FileEntry, ...]]
) -> Entry:
    """A retraction without the files of which the table has rows: they were loaded since."""
    if entry.kind != "retract":
        return entry
    there = {file.path for file in landed.get(entry.day, ())}
    return replace(entry, files=tuple(file for file in entry.files if file.path not in there))


def _to_retract(history: TableHistory) -> list[str]:
    return sorted(path for day in history.days_to_retract for path in history.to_retract(day))


def _only_in_ledger(
    old: TableHistory,
    logged: Sequence[Entry],
    landed: Mapping[date, tuple[FileEntry, ...]],
    number: int,
) -> list[Entry]:
    """The retractions that the log does not have, with numbers from `number` on.

    Of one that is newer than the log the table may have rows again: the rewind names these files
    after it, so the next load removes them. Of one that was cut from the log it has none.
    """
    tokens = {entry.token for entry in logged}
    last = max((entry.batch for entry in logged if entry.state != "abandoned"), default=0)
    found = list[Entry]()
    for entry in old.committed:
        if entry.kind != "retract" or entry.token in tokens:
            continue
        files = tuple(entry.files)
        if entry.batch <= last:
            there = {file.path for file in landed.get(entry.day, ())}
            gone = old.retracted(entry.day) - there
            files = tuple(file for file in files if file.path in gone)
        if files:
            kept = replace(entry, batch=number + len(found), files=files, target_version=None)
            found.append(replace(kept, windows=(), touched=(), affects=(), position=""))
    return found


def _marked(table: Table, batch: int, day: date, state: State, now: datetime, rows: int) -> Entry:
    entry = rebuild_entry(table, batch, day, state, now, WHY)
    return replace(entry, rows_quarantined=rows, who=user_name())


def _last_number(settings: Settings, table: Table, view: LedgerView) -> int:
    """The highest batch number known anywhere: the next ones must be greater.

    Other tables have read the table up to the high ends of their windows; a lower number would not
    be new to them.
    """
    path, name = f"{settings.lake}/{table.name}", table.name
    logged = last_number(path, quarantine_of(settings, table).path, name)
    read = (
        window.high
        for other in view.tables
        for entry in view.table(other).committed
        for window in entry.windows
        if window.upstream == name
    )
    return max(logged, view.table(name).last_batch, *read)


def _upstream_days(table: Table, view: LedgerView) -> Iterable[date]:
    return {day for read in table.upstreams for day in view.table(read.table.name).touching}


def _history(table: Table, entries: Sequence[Entry]) -> TableHistory:
    return TableHistory(table.name, tuple(sorted(entries, key=lambda e: (e.batch, e.day))))


def _rebuilt(history: TableHistory) -> Rebuilt:
    batches = {e.batch for e in history.loads if e.target_version is not None}
    return Rebuilt(history.table, len(batches), tuple(sorted(history.rewound)))
