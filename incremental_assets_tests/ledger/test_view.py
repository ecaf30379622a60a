"""Questions to the ledger, each asked of a history that is written out by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from incremental_assets.ledger.entry import (
    WITHOUT_DAYS,
    Entry,
    FileEntry,
    Kind,
    Mode,
    State,
    Touched,
    Window,
)
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.ledger.view import LedgerView

NOON = datetime(2017, 1, 9, 12, tzinfo=UTC)
CLAIMED: State = "claimed"
HELD: State = "held"
ABANDONED: State = "abandoned"
WHOLE = json.dumps({WITHOUT_DAYS: True})


def jan(day: int) -> date:
    return date(2017, 1, day)


def entry(batch: int, day: int, state: State = "committed", mode: Mode = "merge") -> Entry:
    return Entry(
        table="silver/sales",
        batch=batch,
        day=jan(day),
        state=state,
        kind="restate" if mode == "rebuild" else "advance",
        mode=mode,
        detector="batches",
        recorded_at=NOON,
    )


def reading(batch: int, day: int, high: int, state: State = "committed") -> Entry:
    return replace(entry(batch, day, state), windows=(Window("bronze/events", 0, high),))


def writing(batch: int, day: int, *touched: int) -> Entry:
    return replace(entry(batch, day), touched=tuple(Touched(jan(d), 1) for d in touched))


def history(*entries: Entry) -> TableHistory:
    return TableHistory("silver/sales", entries)


def batches(entries: object) -> list[int]:
    return [e.batch for e in entries]  # type: ignore[attr-defined]


def test_a_table_that_was_never_loaded_answers_everything_with_nothing() -> None:
    never = LedgerView(None).table("silver/sales")

    assert (never.last_batch, never.high, never.unsettled, never.held) == (0, 0, (), {})
    assert never.watermark("bronze/events", jan(1)) == 0
    assert never.published_days == frozenset()


def test_the_last_batch_counts_claims_and_the_high_one_only_what_was_published() -> None:
    sales = history(
        entry(1, 1, CLAIMED),
        entry(1, 1),
        entry(2, 1, CLAIMED),
        entry(2, 1, HELD),
        entry(3, 1, CLAIMED),
    )

    assert (sales.last_batch, sales.high) == (3, 1)


def test_a_claim_without_an_outcome_is_unsettled_with_all_its_days() -> None:
    sales = history(entry(1, 1, CLAIMED), entry(1, 1), entry(2, 1, CLAIMED), entry(2, 2, CLAIMED))

    assert [(e.batch, e.day) for e in sales.unsettled] == [(2, jan(1)), (2, jan(2))]


def test_held_and_abandoned_batches_are_settled() -> None:
    sales = history(
        entry(1, 1, CLAIMED), entry(1, 1, HELD), entry(2, 1, CLAIMED), entry(2, 1, ABANDONED)
    )

    assert sales.unsettled == ()


def test_the_watermark_of_a_day_is_the_high_end_of_its_last_published_batch() -> None:
    sales = history(reading(1, 1, high=4), reading(2, 2, high=6), reading(3, 1, high=9))

    assert sales.watermark("bronze/events", jan(1)) == 9
    assert sales.watermark("bronze/events", jan(2)) == 6
    assert sales.watermark("bronze/events", jan(3)) == 0
    assert sales.watermark("silver/users", jan(1)) == 0


def test_claimed_held_and_abandoned_batches_move_no_watermark() -> None:
    sales = history(
        reading(1, 1, high=4),
        reading(2, 1, 5, HELD),
        reading(3, 1, 6, ABANDONED),
        reading(4, 1, 7, CLAIMED),
    )

    assert sales.watermark("bronze/events", jan(1)) == 4


def test_a_day_is_held_until_it_is_published() -> None:
    still = history(entry(1, 1, HELD), entry(1, 2))
    repaired = history(entry(1, 1, HELD), entry(2, 1))
    again = history(entry(1, 1), entry(2, 1, HELD))

    assert {day: e.batch for day, e in still.held.items()} == {jan(1): 1}
    assert repaired.held == {}
    assert {day: e.batch for day, e in again.held.items()} == {jan(1): 2}


@pytest.mark.parametrize("kind", ["rewind", "retract"])
def test_a_day_stays_held_if_what_was_held_is_not_evaluated_again(kind: Kind) -> None:
    still = history(entry(1, 1, HELD), replace(entry(2, 1), kind=kind))

    assert {day: e.batch for day, e in still.held.items()} == {jan(1): 1}
    assert history(*still.entries, entry(3, 1)).held == {}


def test_a_rewind_makes_a_held_day_due_and_voids_its_acceptance() -> None:
    held, accepted = entry(1, 1, HELD), replace(entry(2, 1), state="accepted")
    rewound, other = (replace(entry(3, day), kind="rewind") for day in (1, 2))
    retracted = replace(entry(3, 1), kind="retract")

    def judged(*entries: Entry) -> tuple[list[int], list[int]]:
        """The batch that holds the day without a load that is due, and its acceptance."""
        sales = history(held, *entries)
        hold = sales.judged(jan(1))
        return batches([hold] if hold else []), batches(sales.accepted.values())

    assert judged() == ([1], [])
    assert judged(accepted) == judged(accepted, retracted) == judged(accepted, other) == ([], [2])
    assert judged(rewound) == judged(accepted, rewound) == ([], [])
    assert judged(rewound, retracted) == ([], [])
    assert judged(retracted) == judged(other) == ([1], [])
    assert judged(accepted, rewound, entry(4, 1, HELD)) == ([4], [])
    assert judged(rewound, replace(accepted, batch=4)) == ([], [])


def test_an_abandoned_attempt_does_not_free_a_held_day() -> None:
    sales = history(entry(1, 1, HELD), entry(2, 1, ABANDONED), entry(3, 1, CLAIMED))

    assert batches(sales.held.values()) == [1]


def test_published_days_are_the_days_that_were_written_to() -> None:
    sales = history(writing(1, 3, 1, 3), replace(writing(2, 4, 4), state=HELD))

    assert sales.published_days == {jan(1), jan(3)}


def test_changes_of_a_day_are_the_batches_above_a_position_that_touched_it() -> None:
    bronze = history(writing(1, 1, 1), writing(2, 2, 1, 2), writing(3, 3, 3), writing(4, 4, 1))

    assert batches(bronze.changes(jan(1), 0)) == [1, 2, 4]
    assert batches(bronze.changes(jan(1), 2)) == [4]
    assert batches(bronze.changes(jan(2), 2)) == []
    assert batches(bronze.changes(jan(9), 0)) == []


def test_a_held_batch_is_no_change() -> None:
    bronze = history(replace(writing(1, 1, 1), state=HELD))

    assert bronze.changes(jan(1), 0) == ()


def test_a_looked_up_batch_concerns_the_days_that_it_affects() -> None:
    users = history(
        replace(entry(1, 1), affects=(jan(5),)),
        replace(entry(2, 2), affects=()),
        replace(entry(3, 3), affects=(jan(5), jan(6))),
    )

    assert batches(users.looked_up_changes(jan(5), 0)) == [1, 3]
    assert batches(users.looked_up_changes(jan(5), 1)) == [3]
    assert batches(users.looked_up_changes(jan(7), 0)) == []


def test_a_looked_up_batch_that_affects_who_knows_what_concerns_every_day() -> None:
    users = history(replace(entry(1, 1), affects=None))

    assert batches(users.looked_up_changes(jan(7), 0)) == [1]
    assert batches(users.looked_up_changes(jan(7), 1)) == []


def test_a_day_counts_from_its_last_rebuild_on() -> None:
    sales = history(
        entry(1, 1), entry(2, 1), entry(3, 1, mode="rebuild"), entry(4, 2), entry(5, 1),
        entry(6, 1, HELD, "rebuild"),
    )  # fmt: skip

    assert batches(sales.since_rebuilt(jan(1))) == [3, 5]
    assert batches(sales.since_rebuilt(jan(2))) == [4]
    assert batches(sales.since_rebuilt(jan(3))) == []


def test_a_file_is_known_as_it_was_last_loaded() -> None:
    def loaded(batch: int, day: int, path: str, tag: str, state: State = "committed") -> Entry:
        return replace(entry(batch, day, state), files=(FileEntry(path, 1, tag, ""),))

    bronze = history(
        loaded(1, 1, "a", "first"),
        loaded(2, 1, "b", "first"),
        loaded(3, 1, "a", "second"),
        loaded(4, 1, "b", "never published", HELD),
        loaded(5, 2, "c", "first"),
    )

    assert {path: f.tag for path, f in bronze.files(jan(1)).items()} == {
        "a": "second",
        "b": "first",
    }


def test_a_rewind_lowers_a_watermark_and_publishes_nothing() -> None:
    rewind = replace(reading(3, 1, 4), kind="rewind")

    rewound = history(reading(2, 1, 9), rewind)

    assert rewound.watermark("bronze/events", jan(1)) == 4
    assert rewound.last_published[jan(1)].batch == 2
    assert [each.batch for each in rewound.loads] == [2]


def test_a_history_that_is_followed_by_a_batch_answers_as_if_it_had_been_read_with_it() -> None:
    file = FileEntry("events/2017-01-02/a.jsonl", 3, "x", "1")
    decision = replace(entry(2, 6), state="accepted", who="ann")
    batches = [
        [writing(3, 1, 1, 2), replace(entry(3, 2), files=(file,))],
        [replace(writing(4, 2, 2), affects=None), entry(4, 3, HELD)],
        [replace(writing(5, 1, 1, 4), affects=(jan(1),), mode="rebuild")],
        [replace(entry(6, 2), files=(replace(file, tag="y"),)), entry(6, 3, HELD)],
        [replace(entry(6, 2), files=(file,), kind="rewind"), replace(entry(6, 7), kind="rewind")],
        [entry(7, 3), entry(7, 6), replace(entry(7, 2), files=(file,))],
        [entry(8, 3, HELD), entry(8, 4, ABANDONED)],
        [replace(entry(9, 3), kind="retract")],
    ]
    names = (
        *("outcomes", "committed", "last_committed", "held", "accepted", "published_days"),
        *("rewound", "to_load_again", "last_final_batch", "last_published"),
        *("touching", "looked_up", "by_day", "last_batch", "high"),
    )
    also = entry(1, 7, HELD), replace(decision, day=jan(7))
    read = followed = history(writing(1, 5, 5), entry(1, 6, HELD), also[0], decision, also[1])
    assert list(followed.accepted) == [jan(6), jan(7)]

    for batch in batches:
        followed = followed.followed_by(batch)
        read = history(*read.entries, *batch)
        assert {name: getattr(followed, name) for name in names} == {
            name: getattr(read, name) for name in names
        }
        for day in map(jan, range(1, 8)):
            assert followed.judged(day) == read.judged(day)
        assert followed.files(jan(2)) == read.files(jan(2))
        assert followed.looked_up_changes(jan(1), 1) == read.looked_up_changes(jan(1), 1)


def test_what_is_only_expected_stands_ahead_of_what_the_ledger_has() -> None:
    view = LedgerView(3, {"silver/sales": history(writing(1, 1, 1))})

    ahead = view.followed_by("silver/sales", [writing(2, 1, 1)]).followed_by(
        "silver/users", [replace(writing(1, 1, 1), table="silver/users")]
    )

    assert [ahead.table(t).high for t in ("silver/sales", "silver/users", "gold/mart")] == [2, 1, 0]
    assert view.table("silver/sales").high == 1


def test_a_hold_of_a_source_without_days_ends_with_the_next_published_batch() -> None:
    of_old = entry(1, 5, HELD)  # older versions did not say that the source has no days
    of_whole = replace(entry(2, 6, HELD), position=WHOLE)
    before = TableHistory("silver/sales", (of_old, of_whole))

    published = replace(entry(3, 7), position=WHOLE)
    later = TableHistory("silver/sales", (of_old, of_whole, published, entry(4, 8, HELD)))
    by_days = TableHistory("silver/sales", (of_old, entry(3, 7)))

    assert [sorted(each.held) for each in (before, later, by_days)] == [
        [jan(5), jan(6)],
        [jan(8)],
        [jan(5)],
    ]


@pytest.mark.parametrize("position", ["", WHOLE], ids=["to before the first", "to a later batch"])
def test_a_rewind_of_a_source_without_days_is_of_all_days_and_brings_no_hold_back(
    position: str,
) -> None:
    def whole(batch: int, day: int, state: State = "committed") -> Entry:
        return replace(entry(batch, day, state), position=WHOLE)

    def rewound(batch: int) -> Entry:
        return replace(entry(batch, 5), kind="rewind", position=position)

    first, held = whole(1, 5), whole(2, 6, HELD)
    accepted = whole(3, 6, "accepted")

    still = history(first, held, rewound(3))
    assert {day: e.batch for day, e in still.held.items()} == {jan(6): 2}
    assert still.judged(jan(6)) is None
    assert history(first, held, accepted, rewound(4)).accepted == {}
    assert history(*still.entries, whole(4, 7)).held == {}
    used = history(first, held, accepted, whole(4, 7), rewound(5))
    assert (used.held, used.accepted) == ({}, {})
