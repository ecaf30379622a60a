"""Where a table stands, found from the newest files alone: it must be what the history says."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from datetime import date

import pytest
from deltalake import DeltaTable, write_deltalake

from incremental_assets.errors import ConflictError
from incremental_assets.ledger.entry import Entry, State, Window, to_frame
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.tail import TableTail, tail_of
from incremental_assets_tests.ledger.entries import (
    SALES,
    USERS,
    append,
    compact,
    entry,
    numbers,
    without_statistics,
)
from incremental_assets_tests.thorough import thorough

EVENTS = "bronze/events"
NAMES = (
    "a/b/c",
    "catalog.schema.table",
    "two words",
    "Verkäufe/日本",
    "100%/a%2Fb",
    'it\'s "quoted"',
    "x=1&y#z?",
    "[a-z]*",
)


def jan(day: int) -> date:
    return date(2017, 1, day)


def numbered(seen: list[int]) -> Callable[[TableTail], Sequence[Entry]]:
    def decide(tail: TableTail) -> Sequence[Entry]:
        seen[:] = [tail.last_batch + 1]
        return [entry(seen[0])]

    return decide


def test_a_table_that_was_never_loaded_stands_at_nothing(ledger: Ledger) -> None:
    append(ledger, entry(1, table=USERS))

    tail = ledger.tail(SALES)

    assert tail == TableTail(SALES)
    assert (tail.last_batch, tail.unsettled, tail.last) == (0, (), None)
    assert ledger.watermark(SALES, EVENTS, jan(1)) == 0


def test_after_a_commit_the_tail_is_that_batch(ledger: Ledger) -> None:
    done = entry(2, "committed", low="4", high="7", position='{"high": 7}', target_version=5)
    append(ledger, entry(1), entry(1, "committed", high="4"), entry(2), done)

    assert ledger.tail(SALES) == TableTail(SALES, 2, (), (done,))
    assert ledger.tail(SALES).last == done


def test_a_claim_without_an_outcome_is_reported_with_all_its_days(ledger: Ledger) -> None:
    done = entry(1, "committed", high="4")
    claims = (entry(2, day=jan(1)), entry(2, day=jan(2)))
    append(ledger, entry(1), done)
    ledger.transact_on(SALES, lambda _: claims[::-1])

    assert ledger.tail(SALES) == TableTail(SALES, 2, claims, (done,))


@pytest.mark.parametrize("state", ["abandoned", "held"])
def test_batches_that_published_nothing_are_counted_but_passed_over(
    ledger: Ledger, state: State
) -> None:
    done = entry(1, "committed", high="4")
    append(ledger, entry(1), done)
    for batch in range(2, 9):
        append(ledger, entry(batch), entry(batch, state, high="9"))

    assert ledger.tail(SALES) == TableTail(SALES, 8, (), (done,))


def test_of_a_batch_the_published_days_count(ledger: Ledger) -> None:
    held = entry(1, "held", day=jan(1))
    published = [entry(1, "committed", day=jan(day)) for day in (3, 2)]
    ledger.transact_on(SALES, lambda _: [*published, held])

    assert [e.day for e in ledger.tail(SALES).committed] == [jan(2), jan(3)]


def test_a_rewind_is_where_the_table_stands(ledger: Ledger) -> None:
    back = entry(2, "committed", kind="rewind", high="3", position='{"high": 3}')
    append(ledger, entry(1), entry(1, "committed", high="9"), back)

    assert ledger.tail(SALES) == TableTail(SALES, 2, (), (back,))


def test_another_tables_batches_are_another_tables(ledger: Ledger) -> None:
    append(
        ledger,
        entry(1, "committed"),
        entry(7, "committed", table=f"{SALES}/x"),
        entry(9, table=USERS),
    )

    assert ledger.tail(SALES).last_batch == 1


def test_the_tail_reads_the_newest_files_only(ledger: Ledger) -> None:
    for batch in range(1, 10):
        append(ledger, entry(batch), entry(batch, "committed", day=jan(batch)))
    append(ledger, entry(10))

    snapshot = Ledger(ledger.path).snapshot()
    tail = tail_of(snapshot, SALES)

    assert len(snapshot.files) == 19
    assert len(snapshot.frames) == 2  # the claim, and the last commit's; no other claim
    assert (tail.last_batch, tail.committed[0].batch) == (10, 9)


def test_compaction_in_between_changes_no_answer(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("incremental_assets.ledger.maintenance.COMPACT_AT_FILES", 8)
    for batch in range(1, 18):
        window = Window(EVENTS, 0, 10 * batch)
        done = entry(batch, "committed", day=jan(batch % 7 + 1), windows=(window,), high=str(batch))
        append(ledger, entry(batch), done)

        assert ledger.tail(SALES) == TableTail(SALES, batch, (), (done,))
        assert ledger.watermark(SALES, EVENTS, jan(batch % 7 + 1)) == 10 * batch
    assert ledger.watermark(SALES, EVENTS, jan(5)) == 110
    assert len(ledger.snapshot().files) < 10


@pytest.mark.parametrize("statistics", ["of all", "of some", "of none"])
@pytest.mark.parametrize(
    "seed",
    [
        0,
        *(
            pytest.param(seed, marks=thorough("ledger/test_tail.py: seed 0"))
            for seed in range(1, 8)
        ),
    ],
)
def test_tail_and_watermarks_are_what_the_history_says_however_files_lie(
    ledger: Ledger, seed: int, statistics: str
) -> None:
    chance = random.Random(seed)
    entries: list[Entry] = []
    states: tuple[State, ...] = ("committed", "held", "abandoned")
    for batch in range(1, 15):
        days = sorted(chance.sample(range(1, 6), chance.randint(1, 3)))
        window = (Window(EVENTS, 0, batch),)
        entries += [entry(batch, day=jan(day), windows=window) for day in days]
        state = chance.choice(states)
        if batch < 14 or chance.random() < 0.5:
            entries += [entry(batch, state, day=jan(day), windows=window) for day in days]
    chance.shuffle(entries)
    if statistics != "of all":
        without_statistics(ledger)
    ledger.view()
    while entries:
        if statistics == "of some" and len(entries) < 25:
            properties = {"delta.dataSkippingNumIndexedCols": "32"}
            DeltaTable(ledger.path).alter.set_table_properties(properties)
        some = [entries.pop() for _ in range(min(chance.randint(1, 12), len(entries)))]
        write_deltalake(ledger.path, to_frame(some), mode="append")

    tail, history = ledger.tail(SALES), ledger.view().table(SALES)

    assert (tail.last_batch, set(tail.unsettled)) == (history.last_batch, set(history.unsettled))
    assert tail.committed == tuple(e for e in history.committed if e.batch == history.high)
    for day in map(jan, range(1, 7)):
        assert ledger.watermark(SALES, EVENTS, day) == history.watermark(EVENTS, day)


def test_the_watermark_of_a_day_is_of_its_last_batch_and_of_that_upstream(ledger: Ledger) -> None:
    windows = (Window(EVENTS, 0, 4), Window(USERS, 0, 6))
    append(
        ledger,
        entry(1, "committed", day=jan(1), windows=windows),
        entry(2, "committed", day=jan(2), windows=(Window(EVENTS, 4, 8),)),
        entry(3, "held", day=jan(1), windows=(Window(EVENTS, 4, 9),)),
    )

    assert ledger.watermark(SALES, EVENTS, jan(1)) == 4
    assert ledger.watermark(SALES, USERS, jan(1)) == 6
    assert ledger.watermark(SALES, USERS, jan(2)) == 0
    assert ledger.watermark(SALES, EVENTS, jan(3)) == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_table_may_have_any_name(ledger: Ledger, name: str) -> None:
    done = entry(1, "committed", table=name, windows=(Window(name, 0, 4),))
    append(ledger, entry(1, table=name), done, entry(5, "committed", table=f"{name}2"))

    for _ in range(2):
        assert ledger.tail(name) == TableTail(name, 1, (), (done,))
        assert ledger.watermark(name, name, done.day) == 4
        assert [e.table for e in ledger.view().table(name).entries] == [name, name]
        compact(ledger)


def test_deciding_on_a_tail_gives_the_tail_that_was_decided_on(ledger: Ledger) -> None:
    append(ledger, entry(1))
    seen: list[TableTail] = []

    def decide(tail: TableTail) -> Sequence[Entry]:
        seen.append(tail)
        return [entry(2)]

    given = ledger.transact_on(SALES, decide)

    assert seen == [given]
    assert given.last_batch == 1
    assert numbers(ledger) == [1, 2]


def test_deciding_for_nothing_on_a_tail_writes_nothing(ledger: Ledger) -> None:
    append(ledger, entry(1))
    before = ledger.view().version

    ledger.transact_on(SALES, lambda _: [])

    assert ledger.view().version == before


def test_who_was_overtaken_decides_again_on_the_tail_of_now(ledger: Ledger, other: Ledger) -> None:
    seen: list[int] = []

    def decide(tail: TableTail) -> Sequence[Entry]:
        seen.append(tail.last_batch)
        if len(seen) == 1:
            append(other, entry(1))
        return [entry(seen[-1] + 1)]

    ledger.transact_on(SALES, decide)

    assert seen == [0, 1]
    assert numbers(ledger) == [1, 2]


def test_a_decision_that_took_too_long_is_made_again(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 1000.0, 1000.0, 1000.1])
    monkeypatch.setattr("incremental_assets.ledger.ledger.time.time", lambda: next(clock))
    decided: list[int] = []

    def decide(tail: TableTail) -> Sequence[Entry]:
        decided.append(tail.last_batch)
        return [entry(1)]

    ledger.transact_on(SALES, decide)

    assert decided == [0, 0]
    assert numbers(ledger) == [1]


def test_decisions_that_always_take_too_long_are_given_up(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("incremental_assets.ledger.ledger.TRIES", 2)
    monkeypatch.setattr("incremental_assets.ledger.ledger.DECIDE_WITHIN_SECONDS", -1.0)

    with pytest.raises(ConflictError, match="run again"):
        append(ledger, entry(1))

    assert numbers(ledger) == []


@pytest.mark.parametrize("threads", [2, 4])
def test_racing_claims_on_the_tail_never_get_the_same_number(ledger: Ledger, threads: int) -> None:
    ledger.view()
    start = threading.Barrier(threads)
    won: list[int] = []

    def claim_some() -> None:
        mine, seen = Ledger(ledger.path), [0]
        start.wait()
        for _ in range(8):
            mine.transact_on(SALES, numbered(seen))
            won.append(seen[0])

    racers = [threading.Thread(target=claim_some) for _ in range(threads)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()

    assert sorted(won) == list(range(1, 8 * threads + 1))
    assert numbers(ledger) == sorted(won)


def test_threads_may_share_one_ledger(ledger: Ledger) -> None:
    start = threading.Barrier(3)
    won: list[int] = []

    def claim_some() -> None:
        seen = [0]
        start.wait()
        for _ in range(6):
            ledger.transact_on(SALES, numbered(seen))
            won.append(seen[0])
            ledger.view().table(SALES)

    racers = [threading.Thread(target=claim_some) for _ in range(3)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()

    assert sorted(won) == list(range(1, 19))
    assert numbers(ledger) == sorted(won)
