"""How many rows days have, as the ledger and Delta's log tell it: what count rules compare with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import date

from incremental_assets.lake.delta_log import rows_by_file
from incremental_assets.lake.merge import Merged
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.view import TableHistory
from incremental_assets.quality.rule import DayRule, Rule

Rows = Mapping[date, int]


def judges_volume(rules: Iterable[Rule]) -> bool:
    """Whether a rule asks for all rows of a day, or for those of the days before it."""
    return any(isinstance(rule, DayRule) and rule.of_volume for rule in rules)


def added_up(history: TableHistory, counted: Callable[[Entry], int]) -> Rows:
    """The rows of each day's published batches together, from its last rebuild on."""
    found: dict[date, int] = {}
    for entry in history.committed:
        before = 0 if entry.mode == "rebuild" else found.get(entry.day, 0)
        found[entry.day] = before + counted(entry)
    return found


def last_ones(history: TableHistory, counted: Callable[[Entry], int]) -> Rows:
    """The rows of each day's last published batch, where that counts the whole day."""
    return {day: counted(entry) for day, entry in history.last_published.items()}


def landed(path: str, written: Merged | None, days: Collection[date]) -> Rows:
    """The rows of every landing day, once what was written for these days is published."""
    found: dict[date, int] = {}
    replaced = set(written.replaced) if written else set()
    for file, day, rows in rows_by_file(path, "_landing_day"):
        if day is not None and not (day in days and file in replaced):
            found[day] = found.get(day, 0) + rows
    for place, rows in (written.staged.rows if written else {}).items():
        if place[0] is not None:
            found[place[0]] = found.get(place[0], 0) + rows
    return found


def before(rows: Rows, day: date) -> tuple[int, ...]:
    """The rows of the days before one, newest first."""
    return tuple(rows[d] for d in sorted((d for d in rows if d < day), reverse=True))
