"""Retracting landed files: their rows leave bronze on record, and all that is built on it follows.

Bronze keeps the rows of a file that is no longer landed, since it may have been archived. So a file
that should never have landed is removed where it landed, and then retracted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from difflib import get_close_matches
from pathlib import Path

from incremental_assets.days import named
from incremental_assets.errors import DefinitionError
from incremental_assets.lakehouse import DayResult, Lakehouse, TableLoadResult
from incremental_assets.ledger.view import LedgerView
from incremental_assets.locations import local_path
from incremental_assets.operations.log_entries import landed_rows
from incremental_assets.operations.restate import days_made_stale
from incremental_assets.plan.due import with_downstream
from incremental_assets.plan.retract import plan_retraction, require_feed
from incremental_assets.plan.retracted_rows import retracted_rows_stay
from incremental_assets.settings import Settings
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.table import Table, feeds_of

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Retraction:
    """The files of one bronze table that are to be retracted, by landing day."""

    table: Table
    paths: Mapping[date, Collection[str]]

    @property
    def files(self) -> set[str]:
        return {path for paths in self.paths.values() for path in paths}


@dataclass(frozen=True, slots=True)
class RetractedRows:
    """How many rows of a file bronze has on a day of silver."""

    table: str
    file: str
    day: date
    rows: int


def retract(
    lakehouse: Lakehouse, files: Sequence[str], why: str, run_id: str = ""
) -> Iterator[TableLoadResult]:
    """Remove the rows of the files from bronze, then load the days that this made stale.

    The files are named as in `retractions_of`. Yields a result as soon as its table is done,
    upstreams first. A file that was retracted before changes nothing in bronze: what is built on
    it is loaded if that was interrupted. A day that keeps rows of the files until the hold of an
    upstream ends is refused. Raises DefinitionError without a reason, and as `retractions_of` and
    `Lakehouse.retract` do.
    """
    if not why.strip():
        raise DefinitionError("A retraction needs a reason, which stays in the ledger: give one.")
    before = lakehouse.ledger.view()
    chosen = {
        each.table.name: each
        for each in retractions_of(files, lakehouse.tables, before, lakehouse.settings)
    }
    below = {
        table.name
        for each in chosen.values()
        for table in with_downstream(each.table, lakehouse.tables)
    }
    ordered = [table for table in lakehouse.tables if table.name in below]
    found = _last_before(ordered, chosen, before)
    retracted = {name: each.files for name, each in chosen.items()}

    def last(name: str) -> int:
        return found.get(name, before.table(name).last_batch)

    for table in ordered:
        own = chosen.get(table.name)
        if own is not None:
            days = sorted(own.paths)
            yield lakehouse.retract(table, days, own.files, why.strip(), run_id)
            continue
        stale = days_made_stale(table, last, lakehouse)
        view = lakehouse.ledger.view()
        stay = retracted_rows_stay(table, retracted, last, lakehouse.tables, view)
        refused = {day: DayResult(day, "refused", why) for day, why in stay.items()}
        done = TableLoadResult(table.name, refused, 0.0)
        if stale:
            lakehouse.log(f"{table.name}: stale by the retraction: {named(stale)}")
            loaded = lakehouse.load(table, stale, run_id)
            done = replace(loaded, days=dict(sorted({**loaded.days, **refused}.items())))
        if done.days:
            yield done


def _last_before(
    tables: Sequence[Table], chosen: Mapping[str, Retraction], view: LedgerView
) -> Mapping[str, int]:
    """The last batch of each table before the files left it; of most, the last one there is.

    An interrupted retraction has removed them from bronze, and perhaps from some tables below.
    `tables` are upstreams first.
    """
    found: dict[str, int] = {}
    for table in tables:
        history = view.table(table.name)
        entries = (*history.committed, *history.unsettled)
        going = {file.path for entry in history.unsettled for file in entry.files}
        own = chosen.get(table.name)
        if own is not None:
            left = {
                file.path: entry.batch
                for entry in entries
                if entry.kind == "retract"
                for file in entry.files  # one that landed again since is there
                if file.path in own.files & (going | history.retracted(entry.day))
            }
            after = set(left.values())
        else:
            after = {
                entry.batch
                for entry in entries
                if any(w.high > found[w.upstream] for w in entry.windows if w.upstream in found)
            }
        found[table.name] = min(after, default=history.last_batch + 1) - 1
    return found


def retractions_of(
    files: Sequence[str], tables: Sequence[Table], view: LedgerView, settings: Settings
) -> list[Retraction]:
    """Which bronze tables have loaded the files, and which of their days; changes nothing.

    A file is named by its path below the landing root, `<feed>/YYYY-MM-DD/…`, or by one that leads
    there. Raises DefinitionError for a file that no table has loaded, that is still landed, or that
    is read in place, and SourceError where the rest of a snapshot is gone.
    """
    if not files:
        raise DefinitionError("A retraction needs a file: name one or more.")
    found: dict[str, dict[date, set[str]]] = {}
    for name in files:
        path = _below_landing(name, settings)
        readers = _readers(path, tables, settings, view)
        loaded = [(t, day) for t, day in readers if path in view.table(t.name).files(day)]
        if not loaded:
            raise DefinitionError(_not_loaded(path, readers, view))
        for table, day in loaded:
            found.setdefault(table.name, {}).setdefault(day, set()).add(path)
    retractions = [Retraction(t, found[t.name]) for t in tables if t.name in found]
    for each in retractions:
        plan_retraction(each.table, each.files, "", settings, sorted(each.paths), view)
    return retractions


def rows_to_retract(
    retractions: Sequence[Retraction], settings: Settings, view: LedgerView
) -> list[RetractedRows]:
    """What a retraction would remove from bronze, found without Spark."""
    found = []
    for each in retractions:
        path = f"{settings.lake}/{each.table.name}"
        for landed, paths in sorted(each.paths.items()):
            history = view.table(each.table.name)
            wanted = set(paths) - (history.retracted(landed) - history.to_retract(landed))
            rows = landed_rows(path, landed) if wanted else {}
            found += [
                RetractedRows(each.table.name, file, day, number)
                for (file, day), number in sorted(rows.items())
                if file in wanted
            ]
    return found


def _below_landing(name: str, settings: Settings) -> str:
    """The path below the landing root of a file that is named by one of several paths."""
    landing = settings.landing.rstrip("/")
    if name.startswith(f"{landing}/"):
        return name[len(landing) + 1 :]
    root = local_path(landing)
    if root is not None and "://" not in name:
        at, root = Path(name).absolute(), root.absolute()
        if at.is_relative_to(root):
            return at.relative_to(root).as_posix()
    return name.removeprefix("./")


def _readers(
    path: str, tables: Sequence[Table], settings: Settings, view: LedgerView
) -> list[tuple[Table, date]]:
    """The bronze tables that read a path, each with its landing day."""
    of_tables = feeds_of(tables)
    feeds = {feed.feed: feed for _, feed in of_tables}
    name, _, below = path.partition("/")
    if name not in feeds:
        _require_not_in_place(path, tables, settings)
    if name not in feeds and below:
        near = get_close_matches(name, feeds, 1)
        meant = f"; did you mean {near[0]}/{below}?" if near else "."
        raise DefinitionError(
            f"{path}: no table reads files of a feed {name!r}{meant} "
            f"The feeds are {', '.join(sorted(feeds)) or 'none'}."
        )
    days = ((table, feed.day_of(path, view.table(table.name))) for table, feed in of_tables)
    found = [(table, day) for table, day in days if day is not None]
    if not found:
        feed = feeds.get(name) or next((feeds[n] for n in sorted(feeds)), LandedFiles("orders"))
        raise DefinitionError(
            f"{path!r} is no file of a landing day. Name files as they landed below "
            f"{settings.landing}: <feed>/…, such as {feed.example}."
        )
    return found


def _require_not_in_place(path: str, tables: Sequence[Table], settings: Settings) -> None:
    """Raise DefinitionError for a path of a source that a table reads in place."""
    is_below_landing = not path.startswith("/") and "://" not in path
    at = f"{settings.landing.rstrip('/')}/{path}" if is_below_landing else path
    for table in tables:
        read = table.input
        if read is not None and f"{at}/".startswith(f"{read.path_in(settings.landing)}/"):
            require_feed(table)


def _not_loaded(path: str, readers: Sequence[tuple[Table, date]], view: LedgerView) -> str:
    names = ", ".join(table.name for table, _ in readers)
    histories = [(view.table(table.name), day) for table, day in readers]
    for history, day in histories:
        held = history.held.get(day)
        if held is not None and path in {file.path for file in held.files}:
            return (
                f"{path} was never published: {history.table} {day} is held since batch "
                f"{held.batch}. Repair it where it landed, or remove it, and run."
            )
    known = sorted({file for history, day in histories for file in history.files(day)})
    day = readers[0][1]
    near = get_close_matches(path, known, 1)
    if near:
        return f"{names} has not loaded {path}; did you mean {near[0]}?"
    of_day = ", ".join(known[:_SHOWN]) + (", …" if len(known) > _SHOWN else "")
    return f"{names} has not loaded {path}. Of {day} it has loaded {of_day or 'no file'}."
