"""What wants a person's eye, shown by ledgers that are written out by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from incremental_assets.alerts.conditions import AlertThresholds, Condition, conditions, due
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.shares import IN_COUNTS
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.rules import fail, not_null, quarantine, quarantined_share
from incremental_assets.quality.types import Instant, Text
from incremental_assets.table import Table
from incremental_assets_tests.plan.ledgers import EVENTS, MART, SALES, USERS, did, jan, ledger

JUDGED = replace(
    SALES,
    name="silver/judged",
    schema=Contract(id=Text(), at=Instant()),
    rules=(*quarantine(not_null("id")), *fail(quarantined_share(at_most=0.05))),
)
TABLES = (EVENTS, USERS, SALES, JUDGED, MART)
LIMITS = AlertThresholds(timedelta(hours=6), quarantined=0.02, late=0.2)
NOON = datetime(2017, 1, 31, 12, tzinfo=UTC)


def found(*entries: Entry, tables: tuple[Table, ...] = TABLES) -> list[Condition]:
    return conditions(tables, ledger(*entries), LIMITS, jan(1), jan(31))


def conditions_of(
    *entries: Entry, tables: tuple[Table, ...] = TABLES
) -> list[tuple[str, str, int, str]]:
    return [(c.kind, c.table, c.day.day, c.found) for c in found(*entries, tables=tables)]


def with_rows(entry: Entry, **counts: Any) -> Entry:
    return replace(entry, **counts)


def test_a_held_day_is_reported_with_its_rules_and_counts_and_nothing_else() -> None:
    held = with_rows(
        did(JUDGED, 7, 5, state="held"),
        held_by="quarantined_share: 9 of 20 rows (45.00%) are in quarantine; Ada: secret",
        rows_read=20,
        rows_quarantined=9,
    )

    assert conditions_of(held) == [
        (
            "held",
            "silver/judged",
            5,
            "held since batch 7 by quarantined_share; 9 of 20 rows are quarantined",
        )
    ]


def test_a_held_day_that_was_accepted_is_not_reported() -> None:
    held = did(JUDGED, 7, 5, state="held")
    accepted = did(JUDGED, 8, 5, state="accepted")

    assert conditions_of(held, accepted) == []


def test_a_stale_day_is_due_once_it_has_waited_since_the_first_change_for_long_enough() -> None:
    first = replace(did(EVENTS, 1, 4, touched=[5]), recorded_at=NOON)
    again = replace(did(EVENTS, 2, 6, touched=[5]), recorded_at=NOON + timedelta(hours=5))

    waiting = found(first, again, tables=(EVENTS, SALES))

    shown = [(c.kind, c.table, c.day, c.since) for c in waiting]
    assert shown == [("stale", "silver/sales", jan(5), NOON)]
    assert waiting[0].found == "waits since 2017-01-31 12:00 UTC to be rebuilt"
    assert due(waiting, LIMITS, NOON + timedelta(hours=6, seconds=-1)) == []
    assert due(waiting, LIMITS, NOON + timedelta(hours=6)) == waiting


def test_a_day_that_has_read_what_is_above_it_waits_for_nothing() -> None:
    read = did(EVENTS, 1, 5, touched=[5]), did(SALES, 1, 5, read={EVENTS.name: 1})

    assert conditions_of(*read, tables=(EVENTS, SALES)) == []


def test_a_day_waits_for_what_it_looks_up_as_well() -> None:
    made = did(MART, 1, 5, read={SALES.name: 0, USERS.name: 1})
    users = [did(USERS, n, 5, touched=[5], affects=[5], read={EVENTS.name: 9}) for n in (1, 2)]
    late = replace(users[1], recorded_at=NOON)

    assert [(c.kind, c.day.day, c.since) for c in found(users[0], late, made)] == [
        ("stale", 5, NOON)
    ]


def test_a_day_that_was_rewound_waits_since_then() -> None:
    read = did(EVENTS, 1, 5, touched=[5]), did(SALES, 1, 5, read={EVENTS.name: 1})
    rewound = replace(did(SALES, 2, 5, read={EVENTS.name: 1}, kind="rewind"), recorded_at=NOON)

    waiting = found(*read, rewound, tables=(EVENTS, SALES))

    assert [(c.kind, c.table, c.day.day, c.since) for c in waiting] == [
        ("stale", "silver/sales", 5, NOON)
    ]


def counted(batch: int, rows: int, bad: int, **more: Any) -> Entry:
    return with_rows(did(JUDGED, batch, 5), rows_counted=rows, rows_counted_quarantined=bad, **more)


def test_rows_in_quarantine_are_a_share_of_the_days_rows_of_all_batches() -> None:
    assert conditions_of(counted(1, 400, 8)) == []
    assert conditions_of(counted(1, 400, 9)) == [
        (
            "quarantined",
            "silver/judged",
            5,
            "9 of 400 rows (2.2%) are in quarantine; the limit is 2%",
        )
    ]
    assert conditions_of(counted(1, 400, 9), counted(2, 400, 0)) == []
    assert [c.fingerprint for c in found(counted(1, 400, 9), counted(2, 50, 8))] == ["2"]


def test_a_handful_of_rows_is_no_share() -> None:
    assert conditions_of(counted(1, 4, 4)) == []
    assert len(conditions_of(counted(1, 5, 5))) == 1


def test_what_was_rebuilt_replayed_or_dropped_counts_no_more() -> None:
    bad = counted(1, 100, 50)

    assert conditions_of(bad, counted(2, 100, 0, mode="rebuild")) == []
    assert conditions_of(bad, counted(2, 0, -50, kind="replay")) == []
    rewound = did(JUDGED, 2, 5, kind="rewind", mode="rebuild")
    assert [c.fingerprint for c in found(bad, rewound) if c.kind == "quarantined"] == ["1"]
    dropped = with_rows(did(JUDGED, 2, 5, state="dropped"), rows_deleted=50)
    assert conditions_of(bad, dropped) == []
    assert len(conditions_of(bad, replace(dropped, rows_deleted=40))) == 1


def test_rows_that_never_counted_take_none_off_when_they_are_dropped() -> None:
    bad = counted(1, 1000, 40)
    late = with_rows(did(JUDGED, 2, 5, state="dropped"), rows_deleted=50, held_by="too_late")
    recorded = replace(late, held_by="x", position=IN_COUNTS)
    some = replace(recorded, rows_counted=-10, rows_counted_quarantined=-10)
    every = replace(late, held_by="", rows_deleted=90)

    assert [text.split(" (")[0] for *_, text in conditions_of(bad, late)] == ["40 of 1,000 rows"]
    assert [text.split(" (")[0] for *_, text in conditions_of(bad, some)] == ["30 of 990 rows"]
    # Rows that only a held batch had put there.
    assert [text.split(" (")[0] for *_, text in conditions_of(bad, recorded)] == [
        "40 of 1,000 rows"
    ]
    again = conditions_of(bad, every, counted(3, 40, 40))
    assert [text.split(" (")[0] for *_, text in again] == ["40 of 1,000 rows"]


def test_late_rows_are_a_share_of_all_that_came_for_the_day() -> None:
    on_time = with_rows(did(EVENTS, 1, 5), rows_read=80)
    late = with_rows(did(EVENTS, 2, 5), rows_read=20, rows_late=20)

    assert conditions_of(on_time, late, tables=(EVENTS,)) == []
    replayed = with_rows(did(EVENTS, 3, 5, kind="replay"), rows_read=20, rows_late=20)
    assert conditions_of(on_time, late, replayed, tables=(EVENTS,)) == []
    later = with_rows(did(EVENTS, 3, 5), rows_read=1, rows_late=1)
    assert conditions_of(on_time, late, later, tables=(EVENTS,)) == [
        ("late", "bronze/events", 5, "21 of 101 rows (20.8%) came late; the limit is 20%")
    ]
