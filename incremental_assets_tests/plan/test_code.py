"""Days that other code has made: what a plan says of them, and what becomes of those with news."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.forecast import forecast
from incremental_assets.settings import Settings
from incremental_assets.table import SameDay, Table
from incremental_assets.writes import Append, Merge, RecomputeKeys
from incremental_assets_tests.plan.ledgers import (
    EVENTS,
    MART,
    SALES,
    USERS,
    by_mode,
    did,
    jan,
    ledger,
    planned,
)

NOW = datetime(2017, 1, 31, 12, tzinfo=UTC)
KEYED = Table(
    "gold/keyed",
    "",
    reads=(SameDay(SALES),),
    key=("id",),
    write=RecomputeKeys(),
    transform=lambda sales: sales,
)
MERGED_MART = replace(MART, key=("id",), write=Merge())
LINES = replace(SALES, name="silver/lines", key=(), day=None, write=Append())


def by(code: str, entry: Entry) -> Entry:
    return replace(entry, code_version=code, rows_counted=100_000, rows_inserted=100_000)


def loaded(table: Table, code: str, *days: int) -> list[Entry]:
    """Days of a table and of what it reads, all of them read."""
    above = {read.table.name: 1 for read in table.upstreams}
    return [
        *(by("1", did(r.table, 1, d, touched=[d])) for r in table.upstreams for d in days),
        *(by(code, did(table, 1, d, touched=[d], read=above)) for d in days),
    ]


def notes_of(table: Table, view: LedgerView, settings: Settings) -> dict[str, str]:
    found = forecast([table], view, settings, None, NOW)
    assert not [day for day in found.days if day.table == table.name]
    return {f"{s.first.day}-{s.last.day}": s.reason for s in found.skipped}


def test_days_of_other_code_are_skipped_with_the_restatement_that_rebuilds_them(
    settings: Settings,
) -> None:
    new = replace(SALES, code_version="2")
    view = ledger(*loaded(SALES, "1", 1, 2, 3, 7), *loaded(SALES, "2", 5), *loaded(SALES, "", 9))

    assert notes_of(new, view, settings) == {
        "1-3": "made by code version 1, the code is 2: `incremental-assets restate silver/sales "
        "--days 2017-01-01...2017-01-03 --why …`",
        "7-7": "made by code version 1, the code is 2: `incremental-assets restate silver/sales "
        "--days 2017-01-07 --why …`",
    }
    assert notes_of(SALES, view, settings) == {
        "5-5": "made by code version 2, the code is 1: `incremental-assets restate silver/sales "
        "--days 2017-01-05 --why …`"
    }


def test_a_day_that_new_code_merged_into_is_named_until_it_was_rebuilt(settings: Settings) -> None:
    new = replace(SALES, code_version="2")
    mixed = [*loaded(SALES, "1", 1), by("2", did(SALES, 2, 1, touched=[1], read={EVENTS.name: 1}))]
    rebuilt = by("2", did(SALES, 3, 1, touched=[1], read={EVENTS.name: 1}, mode="rebuild"))

    assert list(notes_of(new, ledger(*mixed), settings)) == ["1-1"]
    assert notes_of(new, ledger(*mixed, rebuilt), settings) == {}


@pytest.mark.parametrize("table", [SALES, LINES, MERGED_MART, MART], ids=lambda table: table.name)
def test_a_day_with_new_input_that_other_code_built_is_rebuilt_whole(
    settings: Settings, table: Table
) -> None:
    facts = table.upstreams[0].table
    news = [by("1", replace(did(facts, 2, day, touched=[day]), rows_inserted=1)) for day in (1, 2)]
    view = ledger(*loaded(table, "1", 1), *loaded(table, "2", 2), *news)

    plan = planned(replace(table, code_version="2"), [1, 2], view, settings)

    by_day = {day: (work.mode, work.kind) for work in plan.work for day in work.days}
    reasons = {day: todo.why for work in plan.work for day, todo in work.days.items()}
    assert by_day[jan(1)] == ("rebuild", "restate")
    changed = f"{facts.name} has changed (batch 2)"
    assert reasons[jan(1)] == f"{changed}; made by code version 1, the code is 2"
    assert by_day[jan(2)][1] == "advance"
    assert "code" not in reasons[jan(2)]


@pytest.mark.parametrize(
    ("table", "because"),
    [
        (USERS, "its keys are on any day: what is new is merged by the new code"),
        (KEYED, "keys that do not change stay"),
    ],
    ids=lambda case: getattr(case, "name", ""),
)
def test_where_a_key_lies_on_any_day_what_is_new_is_merged_and_the_plan_says_so(
    settings: Settings, table: Table, because: str
) -> None:
    new, facts = replace(table, code_version="2"), table.upstreams[0].table
    before = loaded(table, "1", 1)
    view = ledger(*before, by("1", did(facts, 2, 1, touched=[1])))

    plan = planned(new, [1], view, settings)
    (left,) = notes_of(new, ledger(*before), settings).values()

    assert by_mode(plan) == {("merge", "advance"): [1]}
    assert plan.work[0].days[jan(1)].why == (
        f"{facts.name} has changed (batch 2); made by code version 1, the code is 2, and {because}"
    )
    assert f"restate {table.name} --days 2017-01-01" in left
    # A restatement recomputes the keys of the day.
    restated = by("2", did(table, 2, 1, touched=[1], read={facts.name: 1}, kind="restate"))
    assert notes_of(new, ledger(*before, restated), settings) == {}


def test_what_new_code_rebuilt_is_rebuilt_below_as_a_restatement_is(settings: Settings) -> None:
    sales = by("2", did(SALES, 2, 1, touched=[1], kind="restate", mode="rebuild"))
    view = ledger(*loaded(MERGED_MART, "1", 1), sales)

    assert by_mode(planned(MERGED_MART, [1], view, settings)) == {("rebuild", "restate"): [1]}
