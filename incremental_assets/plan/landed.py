"""Which landing days hold files that are new or changed, by the listing and the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from functools import partial

from incremental_assets.errors import DefinitionError
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.digests import Digests
from incremental_assets.plan.inspector import INSPECTOR, Inspector, Tag
from incremental_assets.plan.retract import repeated_retractions
from incremental_assets.plan.work import DayWork, Plan, Work, first_load
from incremental_assets.plurals import counted
from incremental_assets.settings import Settings
from incremental_assets.sources.day_files import DayFiles
from incremental_assets.sources.feed import Feed
from incremental_assets.sources.loaded_files import is_as_loaded
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.table import Table

_NAMED = 3
HELD_IS_GONE = "what was held is no longer there"


def plan_landed(
    table: Table,
    feed: Feed,
    days: Sequence[date],
    view: LedgerView,
    settings: Settings,
    inspection: Inspector = INSPECTOR,
) -> Plan:
    """What loading these landing days of a feed would do now."""
    history, snapshots = view.table(table.name), table.changes.compares_days
    fresh: dict[date, DayWork] = {}
    repaired: dict[date, DayWork] = {}
    idle: list[date] = []
    returned: list[str] = []
    waits: dict[date, list[SourceFile]] = {}
    digests = Digests(settings, table.name)
    by_day = inspection.listed(feed, settings.landing, days, history)
    for day, there in by_day.items():
        held = history.held.get(day)
        if held is None and history.has_exactly(day, there.fingerprint):
            idle.append(day)
            continue
        judged = {file.path for file in held.files} if held is not None else ()
        waits[day] = waiting = [
            f for f in there if f.waits and not is_as_loaded(f, history.files(day).get(f.path))
        ]
        if waiting and snapshots:  # without them it is another snapshot
            idle.append(day)
            continue
        listed = _without(there, waiting)
        tag = partial(digests.tagged, history.files(day))
        tagged = inspection.tags(tag, history.files(day), judged)
        new, changed, why = _pending(table, listed, history, day, tagged)
        _require_same_layout(table, feed, new, history, day)
        back = _retracted_again(listed, changed, history, day)
        returned += back
        files = (*new, *changed)
        if not files:
            if held is None or waiting:
                idle.append(day)
                continue
            why = HELD_IS_GONE
        if snapshots:
            files = _of_snapshot([f for f in listed if f.path not in back], files, tagged)
        due = repaired if changed else fresh
        due[day] = DayWork(day, why, (), files)
    digests.store()
    works = works_of(table, history, fresh, repaired)
    again = repeated_retractions(table, history, by_day)
    to_read = [file for work in works for file in work.files]
    waiting = [file for files in waits.values() for file in files]
    noted = feed.notes(settings.landing, to_read)
    notes = [note for note in (*noted, _waiting(waiting)) if note]
    if returned:
        notes.append(
            f"{counted(len(returned), 'retracted file')} landed again, unchanged, and will not be "
            f"read: {', '.join(returned[:_NAMED])}. To load it, land it under another name."
        )
    if again:
        paths = [file.path for work in again for file in work.files]
        notes.append(
            f"The table has rows of {counted(len(paths), 'retracted file')} again, which are "
            f"removed: {', '.join(paths[:_NAMED])}."
        )
    of_days = {day: _waiting(files) for day, files in waits.items() if files}
    idle = [day for day in idle if not any(day in work.days for work in again)]
    return Plan((*again, *works), {}, tuple(idle), tuple(notes), of_days)


def _waiting(files: Sequence[SourceFile]) -> str:
    """How many files wait, and what the first of them wait for; "" for none."""
    if not files:
        return ""
    some = "; ".join(f"{file.path} ({file.waits})" for file in files[:_NAMED])
    return f"{counted(len(files), 'file')} {'waits' if len(files) == 1 else 'wait'}: {some}."


def _without(there: Sequence[SourceFile], waiting: Sequence[SourceFile]) -> Sequence[SourceFile]:
    paths = {file.path for file in waiting}
    return [file for file in there if file.path not in paths] if paths else there


def _require_same_layout(
    table: Table,
    feed: Feed,
    new: Sequence[SourceFile],
    history: TableHistory,
    day: date,
) -> None:
    """Raise DefinitionError for a file whose rows another layout published on another day.

    They would be there twice. It reads what is known of all days, so it is not looked for in day
    folders, whose paths have one day each.
    """
    if not new or not feed.layout_can_move_files:
        return
    days = history.landing_days()
    for file in new:
        other = days.get(file.path, day)
        is_there = file.path in history.files(other) and file.path not in history.retracted(other)
        if other != day and is_there:
            raise DefinitionError(
                f"{table.name}: {file.path} was loaded on {other}, and by the layout "
                f"{feed.layout!r} it is of {day}: its rows would be loaded twice. Nothing was "
                "loaded. Give the feed its former layout; or, to load all of it again, remove "
                f"{table.name} from the lake, and run `incremental-assets ledger rebuild "
                f"{table.name}`."
            )


def _retracted_again(
    listed: Sequence[SourceFile],
    changed: Sequence[SourceFile],
    history: TableHistory,
    day: date,
) -> list[str]:
    """The files that were retracted and are listed again as they were loaded."""
    other = {file.path for file in changed}
    retracted = history.retracted(day) - other
    return [file.path for file in listed if file.path in retracted]


def no_longer_landed(listed: Mapping[date, DayFiles], history: TableHistory) -> dict[date, int]:
    """How many files of these landing days were loaded and are not listed any more."""
    missing: dict[date, int] = {}
    for day, files in listed.items():
        if not history.has_exactly(day, files.fingerprint):
            there = {file.path for file in files}
            not_missing = there | history.retracted(day)
            missing[day] = sum(path not in not_missing for path in history.files(day))
    return {day: number for day, number in missing.items() if number}


def _pending(
    table: Table, listed: Sequence[SourceFile], history: TableHistory, day: date, tagged: Tag
) -> tuple[list[SourceFile], list[SourceFile], str]:
    """The files of a day that are new, those whose rows are to be replaced, and why."""
    new, changed = table.changes.new_and_changed(listed, history.files(day), tagged)
    why = [f"{counted(len(changed), 'loaded file')} changed"] if changed else []
    wanted = history.to_load_again.get(day, frozenset()) - {file.path for file in changed}
    wanted -= history.retracted(day)
    again = [tagged(file) for file in listed if file.path in wanted]
    if again:
        entry = history.rewound.get(day)
        by = f" by {entry.who}: {entry.why}" if entry else ""
        why.append(f"{counted(len(again), 'file')} again: rewound{by}")
    if new and day not in history.last_committed and day not in history.held:
        why.append(first_load(counted(len(new), "file")))
    elif new:
        why.append(f"{len(new):,} new" if why else counted(len(new), "new file"))
    return new, [*changed, *again], ", ".join(why)


def _of_snapshot(
    there: Sequence[SourceFile], pending: Sequence[SourceFile], tagged: Tag
) -> tuple[SourceFile, ...]:
    """The files of a snapshot: all of its folder, also where few of them are pending.

    Those that are have their tags; where none is, all get theirs.
    """
    known = {file.path: file for file in pending}
    return tuple(known.get(file.path, file) if known else tagged(file) for file in there)


def works_of(
    table: Table,
    history: TableHistory,
    fresh: Mapping[date, DayWork],
    repaired: Mapping[date, DayWork],
) -> tuple[Work, ...]:
    """The batches that load these days: those whose rows are new, and those that are replaced.

    A snapshot is a batch of its own: the next one is compared with it.
    """
    if table.changes.compares_days:
        days = sorted({**fresh, **repaired}.items())
        return tuple(_snapshot_work(history, work) for _, work in days)
    works = Work("append", "advance", fresh), Work("rebuild", "restate", repaired)
    return tuple(work for work in works if work.days)


def _snapshot_work(history: TableHistory, day: DayWork) -> Work:
    """Where the day itself or a later one is loaded, the rows of a day are replaced."""
    if any(loaded >= day.day for loaded in history.last_committed):
        return Work("rebuild", "restate", {day.day: day})
    return Work("append", "advance", {day.day: day})
