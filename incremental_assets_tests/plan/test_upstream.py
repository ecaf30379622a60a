"""What a load of a silver or gold table would do, from what its upstreams recorded."""

from __future__ import annotations

import pytest

from incremental_assets.ledger.entry import Window
from incremental_assets.settings import Settings
from incremental_assets.table import Table
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
    assert plan.work[0].days[jan(1)].why == "bronze/events batch 1"


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
    assert merged.why == "bronze/events 2 batches up to 3"


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
