"""What a load of a silver or gold table would do, from what its upstreams recorded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from incremental_assets.ledger.entry import Mode, Window
from incremental_assets.settings import Settings
from incremental_assets.table import SameDay, Table
from incremental_assets.writes import RecomputeKeys
from incremental_assets_tests.plan.ledgers import (
    EMPTY,
    EVENTS,
    MART,
    SALES,
    USERS,
    by_mode,
    did,
    jan,
    ledger,
    planned,
    stale,
)

PER_USER = replace(
    MART,
    name="gold/per_user",
    reads=(SameDay(SALES),),
    key=("user_id",),
    write=RecomputeKeys(),
    transform=lambda sales: sales,
)


def test_a_table_whose_upstream_was_never_loaded_is_idle(settings: Settings) -> None:
    plan = planned(SALES, [1, 2], EMPTY, settings)

    assert (plan.work, plan.idle) == ((), (jan(1), jan(2)))


def test_the_first_rows_of_a_day_are_appended(settings: Settings) -> None:
    view = ledger(did(EVENTS, 1, 1, touched=[1, 2]))

    plan = planned(SALES, [1, 2, 3], view, settings)

    assert by_mode(plan) == {("append", "advance"): [1, 2]}
    assert plan.idle == (jan(3),)
    assert plan.work[0].days[jan(1)].windows == (Window(EVENTS.name, 0, 1),)
    assert plan.work[0].days[jan(1)].why == "first load of this day (bronze/events batch 1)"


def test_later_rows_of_a_day_are_merged_from_its_watermark_on(settings: Settings) -> None:
    view = ledger(
        did(EVENTS, 1, 1, touched=[1]),
        did(EVENTS, 2, 2, touched=[2, 1]),
        did(EVENTS, 3, 3, touched=[3, 1]),
        did(SALES, 1, 1, touched=[1], read={EVENTS.name: 1}),
    )

    plan = planned(SALES, [1, 2], view, settings)

    assert by_mode(plan) == {("append", "advance"): [2], ("merge", "advance"): [1]}
    merged = plan.work[1].days[jan(1)]
    assert merged.windows == (Window(EVENTS.name, 1, 3),)
    assert merged.why == "bronze/events has changed (2 batches up to 3)"


def test_where_a_key_may_lie_in_any_day_only_the_first_load_appends(settings: Settings) -> None:
    first = ledger(did(EVENTS, 1, 1, touched=[1]))
    second = ledger(
        did(EVENTS, 1, 1, touched=[1]),
        did(USERS, 1, 1, touched=[1], read={EVENTS.name: 1}),
        did(EVENTS, 2, 2, touched=[2]),
    )

    assert by_mode(planned(USERS, [1], first, settings)) == {("append", "advance"): [1]}
    assert by_mode(planned(USERS, [2], second, settings)) == {("merge", "advance"): [2]}


def test_a_restated_batch_in_the_window_rebuilds_the_days_that_it_touched(
    settings: Settings,
) -> None:
    view = ledger(
        did(EVENTS, 1, 1, touched=[1, 2]),
        did(SALES, 1, 1, touched=[1, 2], read={EVENTS.name: 1}),
        did(SALES, 1, 2, read={EVENTS.name: 1}),
        did(EVENTS, 2, 1, touched=[1], kind="restate", mode="rebuild"),
        did(EVENTS, 3, 2, touched=[2]),
    )

    plan = planned(SALES, [1, 2], view, settings)

    assert by_mode(plan) == {("merge", "advance"): [2], ("rebuild", "restate"): [1]}


def test_a_restatement_that_was_read_rebuilds_nothing_again(settings: Settings) -> None:
    view = ledger(
        did(EVENTS, 1, 1, touched=[1], kind="restate", mode="rebuild"),
        did(SALES, 1, 1, touched=[1], read={EVENTS.name: 1}),
        did(EVENTS, 2, 1, touched=[1]),
    )

    assert by_mode(planned(SALES, [1], view, settings)) == {("merge", "advance"): [1]}


def test_a_day_that_has_read_everything_is_idle(settings: Settings) -> None:
    view = ledger(
        did(EVENTS, 1, 1, touched=[1]), did(SALES, 1, 1, touched=[1], read={EVENTS.name: 1})
    )

    plan = planned(SALES, [1], view, settings)

    assert (plan.work, plan.idle) == ((), (jan(1),))


def test_a_day_whose_upstream_is_held_is_refused_with_the_reason(settings: Settings) -> None:
    view = ledger(
        did(EVENTS, 1, 1, touched=[1]),
        did(EVENTS, 2, 1, state="held"),
        did(EVENTS, 3, 2, touched=[2]),
    )

    plan = planned(SALES, [1, 2], view, settings)

    assert plan.refused == {
        jan(1): "bronze/events 2017-01-01 is held since batch 2: quarantined_share: 3 of 5. "
        "Repair its input, or accept it, and run that day again"
    }
    assert plan.days == (jan(2),)


@pytest.mark.parametrize("held", [EVENTS, SALES])
def test_a_day_is_refused_whichever_table_above_it_is_held(settings: Settings, held: Table) -> None:
    view = ledger(
        did(EVENTS, 1, 2, touched=[2]),
        did(SALES, 1, 2, touched=[2]),
        did(held, 2, 1, state="held"),
    )

    plan = planned(MART, [1, 2], view, settings)

    assert plan.refused == {
        jan(1): f"{held.name} 2017-01-01 is held since batch 2: quarantined_share: 3 of 5. "
        "Repair its input, or accept it, and run that day again"
    }
    assert plan.days == (jan(2),)


def test_an_unfinished_batch_upstream_is_not_there_yet(settings: Settings) -> None:
    view = ledger(did(EVENTS, 1, 1, touched=[1], state="claimed"))

    assert planned(SALES, [1], view, settings).idle == (jan(1),)


def test_gold_rebuilds_its_changed_days(settings: Settings) -> None:
    view = ledger(
        did(SALES, 1, 1, touched=[1]), did(SALES, 1, 2, touched=[2]), did(USERS, 4, 1, touched=[1])
    )

    plan = planned(MART, [1, 2], view, settings)

    assert by_mode(plan) == {("rebuild", "advance"): [1, 2]}
    assert plan.work[0].days[jan(1)].windows == (
        Window(SALES.name, 0, 1),
        Window(USERS.name, 0, 4),
    )


def test_a_held_lookup_of_the_same_date_refuses_the_day(settings: Settings) -> None:
    view = ledger(
        did(SALES, 1, 1, touched=[1]), did(SALES, 1, 2, touched=[2]), did(USERS, 1, 1, state="held")
    )

    plan = planned(MART, [1, 2], view, settings)

    assert list(plan.refused) == [jan(1)]
    assert plan.days == (jan(2),)


@pytest.mark.parametrize(
    ("table", "upstream", "mode"),
    [(SALES, EVENTS, "rebuild"), (MART, SALES, "rebuild"), (PER_USER, SALES, "merge")],
)
def test_a_held_restatement_goes_on_as_one_though_nothing_is_new(
    table: Table, upstream: Table, mode: Mode, settings: Settings
) -> None:
    read = {upstream.name: 1}
    before = [did(upstream, 1, 1, touched=[1]), did(table, 1, 1, touched=[1], read=read)]
    held = did(table, 2, 1, read=read, state="held", kind="restate", mode=mode)
    accepted = replace(held, batch=3, state="accepted", held_by="row_count", who="ann", why="ok")

    assert stale(table, ledger(*before, held)) == {}
    view = ledger(*before, held, accepted)
    assert stale(table, view) == {1: "held since batch 2"}
    plan = planned(table, [1], view, settings)
    assert by_mode(plan) == {(mode, "restate"): [1]}
    assert plan.work[0].days[jan(1)].why == "held since batch 2; accepted by ann: ok"
    assert plan.work[0].days[jan(1)].accepted == {"row_count"}

    # New rows belong to what was held, and the acceptance was not for them.
    newer = ledger(*before, held, accepted, did(upstream, 2, 1, touched=[1]))
    plan = planned(table, [1], newer, settings)
    assert by_mode(plan) == {(mode, "restate"): [1]}
    assert plan.work[0].days[jan(1)].accepted == frozenset()


def test_accepted_days_of_a_table_by_key_are_loaded_before_the_others(settings: Settings) -> None:
    read = {SALES.name: 1}
    held = [did(PER_USER, 1, day, read=read, state="held") for day in (2, 3)]
    accepted = [replace(entry, batch=2, state="accepted", held_by="few") for entry in held]
    view = ledger(did(SALES, 1, 1, touched=[1, 2, 3]), *held, *accepted)

    plan = planned(PER_USER, [1, 2, 3], view, settings)

    days = [[(day.day, todo.accepted) for day, todo in work.days.items()] for work in plan.work]
    assert days == [[(2, {"few"}), (3, {"few"})], [(1, frozenset())]]


@pytest.mark.parametrize(("there", "missing"), [(SALES, USERS), (USERS, SALES)])
def test_a_table_of_two_days_waits_for_either_to_be_loaded(
    there: Table, missing: Table, settings: Settings
) -> None:
    both = replace(MART, reads=(SameDay(SALES), SameDay(USERS)))

    plan = planned(both, [1], ledger(did(there, 1, 1, touched=[1])), settings)

    why = f"gold/mart also reads {missing.name}, which was never loaded; load that first"
    assert (plan.work, plan.refused) == ((), {jan(1): why})
