"""Held days that a load evaluates again, and acceptances that count, by ledger and sources."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from incremental_assets.changes import Sequence, Timestamp
from incremental_assets.ledger.entry import WITHOUT_DAYS, Entry, State
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan import file_entries, plan_table, why_pending
from incremental_assets.plan.expected import expected_batch
from incremental_assets.settings import Settings
from incremental_assets.sources.stored import Stored
from incremental_assets.table import Table
from incremental_assets.writes import Append
from incremental_assets_tests.plan.ledgers import EVENTS, SALES, did, jan, ledger, planned

BY_DAY = Table("bronze/orders", "", (Stored("orders"),), changes=Timestamp("at"), write=Append())
WHOLE = Table("bronze/stock", "", (Stored("orders"),), changes=Sequence("id"), write=Append())
TODAY = jan(5)
NOW = datetime(2017, 1, 5, 12, tzinfo=UTC)


def land(settings: Settings, rows: int) -> None:
    file = Path(settings.landing) / "events" / str(TODAY) / "a.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{}\n" * rows)


def put(settings: Settings, rows: int) -> None:
    file = Path(settings.landing) / "orders" / "all.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    at = [datetime(2017, 1, 5, hour, tzinfo=UTC) for hour in range(rows)]
    pl.DataFrame({"id": range(rows), "at": at}).write_parquet(file)


def followed(view: LedgerView, table: Table, settings: Settings, state: State) -> LedgerView:
    """The ledger after a load of all that the table's plan names."""
    history = view.table(table.name)
    plan = plan_table(table, [TODAY], view, settings, TODAY, now=NOW)
    ((work, todo),) = ((work, todo) for work in plan.work for todo in work.days.values())
    entry = did(table, history.last_batch + 1, TODAY.day, state=state, kind=work.kind)
    position = ""
    if todo.source is not None:
        whole = {WITHOUT_DAYS: True} if table.reads_whole_source else {}
        read = {"source": todo.source.fingerprint, "seen": todo.seen, "listed": todo.listed}
        position = json.dumps(read | whole)
    done = replace(entry, files=file_entries(todo.files), windows=todo.windows, position=position)
    return ledger(*history.entries, done)


def rewound(view: LedgerView, table: Table) -> LedgerView:
    """To before the first batch: the files that were loaded are read again."""
    history = view.table(table.name)
    files = tuple(history.files(TODAY).values())
    back = did(table, history.last_batch + 1, TODAY.day, kind="rewind")
    return ledger(*history.entries, replace(back, files=files))


@pytest.mark.parametrize(
    ("table", "puts"),
    [
        pytest.param(EVENTS, land, id="landed files"),
        pytest.param(BY_DAY, put, id="a source with days"),
        pytest.param(WHOLE, put, id="a source without days"),
    ],
)
def test_a_held_day_that_is_rewound_is_pending_until_it_is_evaluated_again(
    settings: Settings, table: Table, puts: Callable[[Settings, int], None]
) -> None:
    def pending(view: LedgerView) -> list[int]:
        found = why_pending(table, view, settings, settings.start_date, TODAY, NOW)
        return [day.day for day in found]

    def expected(view: LedgerView) -> list[State]:
        plan = plan_table(table, [TODAY], view, settings, TODAY, now=NOW)
        works = [expected_batch(table, work, view, view, NOW) for work in plan.work]
        return [each.entry.state for batch in works for each in batch]

    puts(settings, 2)
    view = followed(ledger(), table, settings, "committed")
    puts(settings, 3)
    held = followed(view, table, settings, "held")
    back = rewound(held, table)
    again = followed(back, table, settings, "held")
    done = followed(back, table, settings, "committed")

    assert [pending(each) for each in (view, held, back, again, done)] == [[5], [], [5], [], []]
    assert [expected(each) for each in (held, back, again)] == [["held"], ["committed"], ["held"]]
    assert [list(each.table(table.name).held) for each in (held, back, done)] == [
        [TODAY],
        [TODAY],
        [],
    ]


def test_a_load_of_a_source_without_days_is_expected_to_end_the_hold_of_another_day(
    settings: Settings,
) -> None:
    put(settings, 2)
    view = followed(ledger(), WHOLE, settings, "held")
    put(settings, 3)
    (work,) = plan_table(WHOLE, [jan(6)], view, settings, jan(6), now=NOW).work

    batch = [each.entry for each in expected_batch(WHOLE, work, view, view, NOW)]

    assert [entry.state for entry in batch] == ["committed"]
    assert view.table(WHOLE.name).followed_by(batch).held == {}


def sales(*entries: Entry) -> LedgerView:
    """A day of sales that was published, and held with what came then."""
    events = (did(EVENTS, batch, 1, touched=[1]) for batch in (1, 2))
    published = did(SALES, 1, 1, touched=[1], read={EVENTS.name: 1})
    held = did(SALES, 2, 1, read={EVENTS.name: 2}, state="held")
    accepted = replace(held, batch=3, state="accepted", held_by="row_count", who="ann", why="seen")
    return ledger(
        *events, *(replace(e, code_version="1") for e in (published, held, accepted)), *entries
    )


def test_an_acceptance_counts_neither_after_a_rewind_nor_for_other_code(
    settings: Settings,
) -> None:
    def accepted(table: Table, *entries: Entry) -> tuple[frozenset[str], tuple[str, ...]]:
        plan = planned(table, [1], sales(*entries), settings)
        (todo,) = (todo for work in plan.work for todo in work.days.values())
        return todo.accepted, plan.notes

    changed = (
        "The code that builds 2017-01-01 changed since it was accepted, so its gate judges it."
    )
    assert accepted(SALES) == ({"row_count"}, ())
    assert accepted(replace(SALES, code_version="2")) == (frozenset(), (changed,))
    assert accepted(SALES, did(SALES, 4, 1, kind="rewind")) == (frozenset(), ())
