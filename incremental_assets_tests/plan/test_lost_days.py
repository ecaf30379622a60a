"""Days that a load would empty, by the ledger and the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl
import pytest
from deltalake import write_deltalake

from incremental_assets.ledger.entry import Entry, Touched
from incremental_assets.plan import plan_replay
from incremental_assets.plan.lost_days import lost_days, without_lost_days
from incremental_assets.settings import Settings
from incremental_assets.table import Table
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

READ = did(SALES, 1, 1, touched=[1], read={EVENTS.name: 1})
REWOUND = did(SALES, 2, 1, kind="rewind", mode="replace")
LOST = "bronze/events has no rows of it any more, and had 1 after batch 1: a rebuild would empty it"
NEVER_HAD = "silver/sales holds rows of it, and by the ledger none was ever in bronze/events"
NOTHING = "by the ledger nothing was ever loaded into bronze/events"


def holds(settings: Settings, table: Table, *days: int) -> None:
    """A Delta table with a row of each day."""
    column = "_day" if table.layer == "bronze" else "dt"
    rows = pl.DataFrame({column: [jan(day) for day in days], "id": list(days)})
    write_deltalake(f"{settings.lake}/{table.name}", rows, partition_by=[column])


CASES: dict[str, tuple[Sequence[Entry], Sequence[int], Sequence[int], str]] = {
    "its rows are there": ([did(EVENTS, 1, 1, touched=[1])], [1, 2], [1], ""),
    "its rows are gone": ([did(EVENTS, 1, 1, touched=[1])], [2], [1], LOST),
    "its last batch emptied it": (
        [
            did(EVENTS, 1, 1, touched=[1]),
            replace(did(EVENTS, 2, 1, kind="retract"), touched=(Touched(jan(1), 0),)),
        ],
        [2],
        [1],
        "",
    ),
    "no batch is known that wrote any": ([did(EVENTS, 1, 2, touched=[2])], [2], [1], NEVER_HAD),
    "nor does the table hold any": ([did(EVENTS, 1, 2, touched=[2])], [2], [2], ""),
    "nothing was loaded": ([did(EVENTS, 1, 1, state="abandoned")], [], [1], NOTHING),
}


@pytest.mark.parametrize("case", CASES)
def test_a_rewound_day_is_refused_where_a_rebuild_would_empty_it(
    settings: Settings, case: str
) -> None:
    upstream, there, own, why = CASES[case]
    view = ledger(*upstream, READ, REWOUND)
    if there:
        holds(settings, EVENTS, *there)
    holds(settings, SALES, *own)

    plan = without_lost_days(planned(SALES, [1], view, settings), SALES, view, settings.lake)

    assert by_mode(plan) == ({} if why else {("rebuild", "restate"): [1]})
    assert set(plan.refused) == ({jan(1)} if why else set())
    assert plan.refused.get(jan(1), "").startswith(why)


def test_quarantined_rows_are_rows_of_a_day_too(settings: Settings) -> None:
    view = ledger(did(EVENTS, 1, 2, touched=[2]), replace(READ, touched=(), rows_quarantined=1))
    holds(settings, EVENTS, 2)
    holds(settings, SALES, 2)

    assert lost_days(SALES, [jan(1)], view, settings.lake)[jan(1)].startswith(NEVER_HAD)


def test_rows_of_a_table_that_is_no_longer_read_are_not_missed(settings: Settings) -> None:
    moved = replace(READ, windows=did(SALES, 1, 1, read={"bronze/former": 1}).windows)
    holds(settings, EVENTS, 2)
    holds(settings, SALES, 1)
    view = ledger(did(EVENTS, 1, 2, touched=[2]), moved)

    assert lost_days(SALES, [jan(1)], view, settings.lake) == {}


def test_new_rows_are_merged_whatever_became_of_earlier_ones(settings: Settings) -> None:
    view = ledger(did(EVENTS, 1, 1, touched=[1]), READ, did(EVENTS, 2, 1, touched=[1]))
    holds(settings, EVENTS, 2)

    plan = without_lost_days(planned(SALES, [1], view, settings), SALES, view, settings.lake)

    assert by_mode(plan) == {("merge", "advance"): [1]}


@pytest.mark.parametrize("of_the_users", [True, False])
def test_a_joined_day_is_refused_for_its_facts_alone(
    settings: Settings, *, of_the_users: bool
) -> None:
    read = {SALES.name: 1, USERS.name: 1}
    gone, there = (USERS, SALES) if of_the_users else (SALES, USERS)
    view = ledger(
        did(there, 1, 1, touched=[1]),
        did(MART, 1, 1, touched=[1], read=read),
        did(MART, 2, 1, kind="rewind", mode="replace"),
    )
    holds(settings, there, 1)
    holds(settings, MART, 1)

    plan = without_lost_days(planned(MART, [1], view, settings), MART, view, settings.lake)

    assert by_mode(plan) == ({("rebuild", "restate"): [1]} if of_the_users else {})
    assert len(plan.refused) == (0 if of_the_users else 1), gone


def test_nothing_is_replayed_from_bronze_that_is_gone() -> None:
    view = ledger(did(EVENTS, 1, 1, state="abandoned"), replace(READ, rows_quarantined=1))

    plan = plan_replay(SALES, [jan(1)], view)

    assert plan.work == ()
    assert plan.refused[jan(1)].startswith(NOTHING)
