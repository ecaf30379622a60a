"""Files that landed and are to be taken out of bronze again, by a manual decision."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from datetime import date

from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.ledger.entry import FileEntry
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.work import DayWork, Plan, Work
from incremental_assets.plurals import counted
from incremental_assets.settings import Settings
from incremental_assets.sources.feed import Feed
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.table import Table, feeds_of

_NAMED = 3


def plan_retraction(
    table: Table,
    paths: Collection[str],
    why: str,
    settings: Settings,
    days: Sequence[date],
    view: LedgerView,
) -> Plan:
    """The landing days of which files are to be retracted, one a batch.

    A file that was not loaded, or was retracted before, is left out. Raises DefinitionError for
    one that is still in the landing, and as `require_feed` does, and SourceError where the rest of
    a snapshot is not in the landing.
    """
    require_feed(table)
    works = []
    for day in days:
        history = view.table(table.name)
        before = history.retracted(day) - history.to_retract(day)
        files = [f for p, f in history.files(day).items() if p in paths and p not in before]
        if not files:
            continue
        _require_not_landed(table, day, files, view, settings)
        work = _retraction(table, day, why, files)
        if table.changes.compares_days:
            left_of_snapshot(table, work.days[day], view, settings)
        works.append(work)
    done = {day for work in works for day in work.days}
    return Plan(tuple(works), {}, tuple(day for day in days if day not in done))


def require_feed(table: Table) -> Feed:
    """The feed whose files a table has loaded.

    Raises DefinitionError for a table of which no file can be retracted: its source is read in
    place, or it is built from other tables.
    """
    if table.feed is not None:
        return table.feed
    if table.layer == "bronze":
        raise DefinitionError(
            f"{table.name} reads its source in place, so it has no landed files to retract. "
            f"Correct the rows at the source, and run `incremental-assets run {table.name}`."
        )
    raise DefinitionError(
        f"{table.name} has no landed files to retract: it is built from other tables. Retract the "
        "files where they were loaded (`incremental-assets retract FILE --why …`), and it follows."
    )


def repeated_retractions(
    table: Table, history: TableHistory, days: Collection[date]
) -> tuple[Work, ...]:
    """The batches that take retracted files out of a table that has their rows again, by day."""
    works = []
    for day in sorted(set(history.days_to_retract).intersection(days)):
        paths, known = history.to_retract(day), history.files(day)
        retractions = (e for e in reversed(history.by_day[day]) if e.kind == "retract")
        why = next(e.why for e in retractions if any(file.path in paths for file in e.files))
        works.append(_retraction(table, day, why, [known[path] for path in sorted(paths)]))
    return tuple(works)


def left_of_snapshot(
    table: Table, todo: DayWork, view: LedgerView, settings: Settings
) -> tuple[SourceFile, ...]:
    """The files that a snapshot consists of without those that are retracted.

    Raises SourceError if any of them is no longer in the landing.
    """
    history, day = view.table(table.name), todo.day
    retracted = history.retracted(day) | {file.path for file in todo.files}
    wanted = [path for path in history.files(day) if path not in retracted]
    there = {file.path: file for file in _listed(table, day, view, settings)}
    missing = [path for path in wanted if path not in there]
    if missing:
        raise SourceError(
            f"{table.name} {day}: without the retracted files the snapshot would consist of "
            f"{_named(wanted)}, and {_named(missing)} cannot be read any more: no longer in the "
            "landing. Nothing was retracted; restore the rest of the snapshot, or retract it too."
        )
    return tuple(there[path] for path in wanted)


def missing_below(table: Table, day: date, view: LedgerView, settings: Settings) -> Sequence[str]:
    """The files from which bronze has rows for a day of a table, and that are not landed any more.

    By the batches that wrote to the day. None where the landing cannot be listed, and none where no
    file of these is landed any more: a landing that is archived is as it should be.
    """
    missing: set[str] = set()
    some_are_landed = False
    for bronze, feed in _landed_below(table):
        history = view.table(bronze.name)
        loaded: dict[date, set[str]] = {}
        for entry in history.changes(day, 0):
            loaded.setdefault(entry.day, set()).update(file.path for file in entry.files)
        try:
            by_day = feed.by_day(settings.landing, sorted(loaded), history)
        except SourceError:
            continue
        listed = {file.path for files in by_day.values() for file in files}
        for landed, paths in loaded.items():
            missing |= paths - listed - history.retracted(landed)
            some_are_landed = some_are_landed or not paths.isdisjoint(listed)
    return sorted(missing) if some_are_landed else []


def retract_hint(paths: Sequence[str]) -> str:
    """What to do about files that are no longer landed where a day is held; "" without one."""
    if not paths:
        return ""
    are = "is" if len(paths) == 1 else "are"
    more = f", and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return (
        f"It may have rows of {counted(len(paths), 'file')} that {are} no longer in the landing; "
        "to remove the rows of what should never have landed: `incremental-assets retract "
        f"{shlex.join(paths[:_NAMED])} --why …`{more}"
    )


def _landed_below(table: Table) -> list[tuple[Table, Feed]]:
    """The bronze tables whose rows of a day it is built on, with the feeds that they read."""
    below = [read.table for read in table.same_days]
    return [found for read in below for found in (feeds_of([read]) or _landed_below(read))]


def _require_not_landed(
    table: Table, day: date, files: Sequence[FileEntry], view: LedgerView, settings: Settings
) -> None:
    listed = {file.path for file in _listed(table, day, view, settings)}
    there = [file.path for file in files if file.path in listed]
    if there:
        it, was = ("it", "is") if len(there) == 1 else ("them", "are")
        raise DefinitionError(
            f"{_named(there)} {was} still in the landing {settings.landing}, so a rebuild would "
            f"load {it} again. Nothing was retracted: move {it} out of the landing first, then "
            f"retract {it}; or repair {it} in place, and run."
        )


def _listed(table: Table, day: date, view: LedgerView, settings: Settings) -> Sequence[SourceFile]:
    return require_feed(table).files(settings.landing, day, view.table(table.name))


def _retraction(table: Table, day: date, why: str, files: Sequence[FileEntry]) -> Work:
    found = tuple(map(_source_file, files))
    todo = DayWork(day, why, (), found, accepted=frozenset(table.checks()))
    return Work("rebuild", "retract", {day: todo})


def _source_file(file: FileEntry) -> SourceFile:
    return SourceFile(file.path, file.size, file.tag, file.modified)


def _named(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return f"{', '.join(paths[:_NAMED])}{more}"
