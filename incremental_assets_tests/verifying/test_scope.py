"""What has to be rebuilt for days of a table, and which of them can be compared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from incremental_assets.days import DayRange
from incremental_assets.ledger.view import LedgerView
from incremental_assets.quality.rules import fail, quarantine, reconciles_with, references
from incremental_assets.table import SameDay, Table
from incremental_assets.verifying.scope import DaysToVerify, days_to_verify
from incremental_assets.writes import RecomputeKeys
from incremental_assets_tests.plan.ledgers import (
    EVENTS,
    MART,
    SALES,
    USERS,
    did,
    jan,
    ledger,
)

PER_USER = Table(
    "gold/per_user",
    "",
    reads=(SameDay(SALES),),
    key=("user_id",),
    write=RecomputeKeys(),
    transform=lambda sales: sales,
)
LEVELS = replace(PER_USER, name="gold/levels", write=RecomputeKeys(running={"level": "bigint"}))
TABLES = (EVENTS, USERS, SALES, MART, PER_USER, LEVELS)


def three_days(**events: object) -> list[object]:
    """Every table has read the batches 1 to 3 of the events, a day each."""
    found = [did(EVENTS, day, day, touched=[day]) for day in (1, 2, 3)]
    for table, upstreams in (
        (USERS, {EVENTS.name: 3}),
        (SALES, {EVENTS.name: 3}),
        (MART, {SALES.name: 3, USERS.name: 3}),
        (PER_USER, {SALES.name: 3}),
        (LEVELS, {SALES.name: 3}),
    ):
        found += [did(table, day, day, touched=[day], read=upstreams) for day in (1, 2, 3)]
    return found


def chosen(table: Table, *more: object, days: tuple[int, int] | None = None) -> DaysToVerify:
    view: LedgerView = ledger(*three_days(), *more)  # type: ignore[arg-type]
    asked = DayRange(jan(days[0]), jan(days[1])) if days else None
    return days_to_verify(table, TABLES, view, asked)


def built(found: DaysToVerify) -> dict[str, list[int]]:
    return {part.table.name: [day.day for day in part.days] for part in found.parts}


def left_out(found: DaysToVerify) -> dict[int, str]:
    return {day.day: why for day, why in found.left_out.items()}


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        pytest.param(SALES, {SALES.name: [2]}, id="a day of facts is a world of its own"),
        pytest.param(USERS, {USERS.name: [1, 2, 3]}, id="a key may lie on any landing day"),
        pytest.param(
            MART,
            {USERS.name: [1, 2, 3], SALES.name: [2], MART.name: [2]},
            id="a day of a join looks up all versions",
        ),
        pytest.param(
            PER_USER, {SALES.name: [1, 2, 3], PER_USER.name: [1, 2, 3]}, id="keys are of all days"
        ),
        pytest.param(LEVELS, {SALES.name: [1, 2], LEVELS.name: [1, 2]}, id="levels go on"),
    ],
)
def test_only_what_the_days_need_is_built(table: Table, expected: dict[str, list[int]]) -> None:
    found = chosen(table, days=(2, 2))

    assert built(found) == expected
    assert [bronze.name for bronze in found.bronze] == [EVENTS.name]
    assert (found.left_out, found.before) == ({}, None)


def test_tables_that_rules_look_into_are_built_too() -> None:
    looking = replace(
        SALES, name="silver/bookings", rules=quarantine(references("id", USERS.name, "user_id"))
    )
    summing = replace(
        MART,
        name="gold/sums",
        reads=(SameDay(SALES),),
        transform=lambda sales: sales,
        rules=fail(reconciles_with(MART.name, {"n": ("count(1)", "count(1)")})),
    )
    view = ledger(
        *three_days(),  # type: ignore[arg-type]
        did(looking, 1, 2, touched=[2], read={EVENTS.name: 3}),
        did(summing, 1, 2, touched=[2], read={SALES.name: 3}),
    )
    every, asked = (*TABLES, looking, summing), DayRange(jan(2), jan(2))

    assert built(days_to_verify(looking, every, view, asked)) == {
        USERS.name: [1, 2, 3],
        "silver/bookings": [2],
    }
    assert built(days_to_verify(summing, every, view, asked)) == {
        USERS.name: [1, 2, 3],
        SALES.name: [2],
        MART.name: [2],
        "gold/sums": [2],
    }


def test_a_stale_day_of_facts_is_left_out_and_gold_above_it_is_built_from_what_it_read() -> None:
    late = did(EVENTS, 4, 4, touched=[2])

    assert left_out(chosen(SALES, late)) == {2: "stale: it has not read bronze/events batch 4"}
    assert built(chosen(SALES, late)) == {SALES.name: [1, 3]}
    assert built(chosen(MART, late))[SALES.name] == [1, 2, 3]
    assert left_out(chosen(MART, late)) == {}


def test_what_was_read_of_a_file_that_was_repaired_since_cannot_be_built_again() -> None:
    repaired = did(EVENTS, 4, 2, touched=[2], kind="restate", mode="rebuild")
    why = "stale: bronze/events batch 4 repaired what it had read"

    assert left_out(chosen(SALES, repaired)) == {2: why}
    assert left_out(chosen(MART, repaired)) == dict.fromkeys(
        (1, 2, 3), f"silver/users 2017-01-01: its keys may be those of 2017-01-02 ({why})"
    ) | {2: left_out(chosen(MART, repaired))[2]}
    assert set(left_out(chosen(USERS, repaired))) == {1, 2, 3}
    assert built(chosen(USERS, repaired)) == {}
    assert set(left_out(chosen(PER_USER, repaired))) == {1, 2, 3}
    levels = chosen(LEVELS, repaired)
    assert (built(levels)[LEVELS.name], levels.before) == ([1], jan(2))


def test_a_gold_day_that_has_not_read_its_upstream_spoils_what_goes_on_from_it() -> None:
    changed = did(SALES, 4, 2, touched=[2], read={EVENTS.name: 3})

    assert left_out(chosen(MART, changed)) == {2: "stale: it has not read silver/sales batch 4"}
    assert set(left_out(chosen(PER_USER, changed))) == {1, 2, 3}
    assert set(left_out(chosen(LEVELS, changed))) == {2, 3}
    assert left_out(chosen(LEVELS, changed, days=(1, 1))) == {}


def test_days_that_are_held_loaded_now_or_rewound_are_left_out() -> None:
    held = did(SALES, 4, 4, state="held", read={EVENTS.name: 4})
    loading = did(SALES, 5, 3, state="claimed", read={EVENTS.name: 3})
    rewound = did(SALES, 4, 2, kind="rewind", read={EVENTS.name: 1})

    assert left_out(chosen(SALES, did(EVENTS, 4, 4, touched=[4]), held, loading)) == {
        3: "batch 5 is being loaded, or its run died; run the day, and verify again",
        4: "held since batch 4: quarantined_share: 3 of 5",
    }
    assert left_out(chosen(MART, did(EVENTS, 4, 4, touched=[4]), held))[4].startswith(
        "silver/sales 2017-01-04 is held since batch 4"
    )
    assert left_out(chosen(SALES, rewound)) == {
        2: "stale: its watermark was rewound to bronze/events batch 1"
    }
