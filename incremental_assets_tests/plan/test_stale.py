"""Which days are stale: those whose rows changed upstream, and no others."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from incremental_assets.plan import (
    stale_days,
)
from incremental_assets.quality.rules import references
from incremental_assets.settings import Settings
from incremental_assets_tests.plan.ledgers import (
    EMPTY,
    EVENTS,
    MART,
    SALES,
    USERS,
    did,
    jan,
    ledger,
    planned,
    stale,
)


def test_a_late_row_makes_only_its_own_day_stale() -> None:
    days = range(1, 6)
    view = ledger(
        *(did(EVENTS, day, day, touched=[day]) for day in days),
        *(did(SALES, day, day, touched=[day], read={EVENTS.name: day}) for day in days),
        did(EVENTS, 6, 6, touched=[2]),
    )

    assert stale(SALES, view) == {2: "bronze/events has changed (batch 6)"}


def test_a_day_that_was_never_loaded_is_stale_and_one_outside_the_partitions_is_not() -> None:
    view = ledger(did(EVENTS, 1, 3, touched=[1, 2, 3]))

    assert list(stale_days(SALES, view, jan(2), jan(2))) == [jan(2)]
    assert list(stale_days(SALES, view, jan(2), jan(31))) == [jan(2), jan(3)]


def test_nothing_is_stale_where_everything_was_read() -> None:
    view = ledger(
        did(EVENTS, 1, 1, touched=[1]), did(SALES, 1, 1, touched=[1], read={EVENTS.name: 1})
    )

    assert stale(SALES, view) == {}
    assert stale(SALES, EMPTY) == {}


def test_a_rewound_day_is_stale_even_where_it_was_read_as_far_as_its_upstream_goes() -> None:
    read = {EVENTS.name: 1}
    view = ledger(
        did(EVENTS, 1, 1, touched=[1]),
        did(SALES, 1, 1, touched=[1], read=read),
        did(SALES, 2, 1, read=read, kind="rewind"),
    )

    assert list(stale(SALES, view)) == [1]


def test_a_held_day_that_was_rewound_since_is_stale_until_it_is_evaluated_again() -> None:
    read = {EVENTS.name: 1}
    loads = (
        did(EVENTS, 1, 1, touched=[1]),
        did(SALES, 1, 1, touched=[1], read=read),
        did(SALES, 2, 1, read=read, state="held"),
    )
    rewound = did(SALES, 3, 1, kind="rewind")
    again = did(SALES, 4, 1, read=read, state="held")

    assert list(stale(SALES, ledger(*loads, rewound))) == [1]
    assert stale(SALES, ledger(*loads, rewound, again)) == {}


def test_a_changed_lookup_makes_just_the_fact_days_stale_that_it_affects() -> None:
    seen = {SALES.name: 1, USERS.name: 1}
    view = ledger(
        *(did(SALES, 1, day, touched=[day]) for day in (1, 2, 3)),
        did(USERS, 1, 1, touched=[1]),
        *(did(MART, 1, day, touched=[day], read=seen) for day in (1, 2, 3)),
        did(USERS, 2, 4, touched=[4], affects=[2]),
    )

    assert stale(MART, view) == {2: "silver/users has changed (batch 2)"}


def test_a_lookup_of_which_nobody_knows_whom_it_affects_makes_every_fact_day_stale() -> None:
    seen = {SALES.name: 1, USERS.name: 1}
    view = ledger(
        *(did(SALES, 1, day, touched=[day]) for day in (1, 2)),
        did(USERS, 1, 1, touched=[1]),
        *(did(MART, 1, day, touched=[day], read=seen) for day in (1, 2)),
        did(USERS, 2, 4, touched=[4], affects=None),
    )

    assert list(stale(MART, view)) == [1, 2]


def test_a_held_day_is_not_asked_for_again_until_its_input_changes() -> None:
    held = (did(EVENTS, 1, 1, touched=[1]), did(SALES, 1, 1, read={EVENTS.name: 1}, state="held"))
    repaired = did(EVENTS, 2, 1, touched=[1], kind="restate", mode="rebuild")

    assert stale(SALES, ledger(*held)) == {}
    why = "bronze/events has changed (2 batches up to 2)"
    assert stale(SALES, ledger(*held, repaired)) == {1: why}

    # A table that a rule reads counts from when the load began, which recorded its outcome later.
    known = replace(SALES, rules=(references("id", USERS.name),))
    read, judged = held
    judged = replace(judged, seconds=600.0)
    meanwhile, before = (
        replace(did(USERS, 1, 1), recorded_at=judged.recorded_at - timedelta(seconds=ago))
        for ago in (300, 900)
    )
    assert list(stale(known, ledger(read, judged, meanwhile))) == [1]
    assert stale(known, ledger(read, judged, before)) == {}


@pytest.mark.parametrize(("ago", "is_accepted"), [(900, True), (300, False)])
def test_an_acceptance_is_of_what_the_rules_of_the_held_batch_read(
    settings: Settings, ago: int, is_accepted: bool
) -> None:
    known = replace(SALES, rules=(references("id", USERS.name),))
    held = did(SALES, 1, 1, read={EVENTS.name: 1}, state="held")
    accepted = replace(held, batch=2, state="accepted", held_by="id_in_silver_users")
    held = replace(held, seconds=600.0)
    looked_up = did(USERS, 1, 1)
    looked_up = replace(looked_up, recorded_at=held.recorded_at - timedelta(seconds=ago))
    view = ledger(did(EVENTS, 1, 1, touched=[1]), held, accepted, looked_up)

    (work,) = planned(known, [1], view, settings).work

    assert bool(work.days[jan(1)].accepted) == is_accepted


def test_a_day_whose_upstream_is_held_is_not_stale() -> None:
    held = (did(EVENTS, 1, 1, touched=[1]), did(EVENTS, 2, 1, state="held"))
    retracted = did(EVENTS, 3, 1, touched=[1], kind="retract")

    assert stale(SALES, ledger(*held)) == {}
    assert stale(SALES, ledger(*held, retracted)) == {}
    assert list(stale(SALES, ledger(*held, retracted, did(EVENTS, 4, 1, touched=[1])))) == [1]
