"""What is asked of a ledger is answered from few of its files, as all of them would answer it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable, write_deltalake

from incremental_assets.file_identity import fingerprint
from incremental_assets.ledger import day_index, reader
from incremental_assets.ledger.day_index import index_at, read_index
from incremental_assets.ledger.entry import (
    WITHOUT_DAYS,
    Entry,
    FileEntry,
    Kind,
    Mode,
    State,
    Touched,
    Window,
    to_frame,
)
from incremental_assets.ledger.indexed_history import IndexedHistory
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.maintenance import compact_if_due
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets_tests.ledger.entries import (
    SALES,
    USERS,
    append,
    compact,
    entry,
    without_statistics,
)
from incremental_assets_tests.ledger.long import filled, read
from incremental_assets_tests.thorough import thorough

__all__ = ["read"]

EVENTS = "bronze/events"
DAYS = range(1, 9)
OF_A_DAY = ("last_committed", "last_published", "held", "accepted", "rewound", "by_day", "touching")


def jan(day: int) -> date:
    return date(2017, 1, day)


def invented(chance: random.Random, batches: int) -> Iterator[list[Entry]]:
    """Batches of every sort, each with its claim; the last one may lack its outcome."""
    positions = chance.choice(((), (json.dumps({WITHOUT_DAYS: True}),)))
    for batch in range(1, batches + 1):
        days = sorted(chance.sample(DAYS, chance.randint(1, 3)))
        state: State = chance.choice(("committed", "committed", "held", "abandoned"))
        kind: Kind = chance.choice(("advance", "advance", "restate", "retract"))
        mode: Mode = chance.choice(("merge", "merge", "append", "rebuild"))
        facts = {"kind": kind, "mode": mode, "windows": (Window(EVENTS, 0, 3 * batch),)}
        claims = [entry(batch, day=jan(day), **facts) for day in days]
        if chance.random() < 0.2:  # a manual decision, which has no claim
            decision: State = chance.choice(("accepted", "dropped"))
            yield [replace(each, state=decision) for each in claims]
            continue
        if chance.random() < 0.15:
            paths = (FileEntry(f"{chance.choice('abc')}", 1, "", ""),)
            back = [replace(e, state="committed", kind="rewind", files=paths) for e in claims]
            left = chance.choice(("", *positions))
            yield [replace(e, windows=(Window(EVENTS, 0, batch),), position=left) for e in back]
            continue
        outcomes = [
            replace(
                claim,
                state=state,
                files=(FileEntry(chance.choice("abc"), batch, "", ""),),
                touched=tuple(Touched(jan(d), batch) for d in chance.sample(DAYS, 2)),
                affects=chance.choice((None, (), tuple(map(jan, chance.sample(DAYS, 2))))),
                rows_quarantined=chance.choice((0, 0, 3)),
                code_version=chance.choice("12"),
                position=chance.choice(positions or ("", f"{batch}")),
            )
            for claim in claims
        ]
        lost = batch == batches and chance.random() < 0.5
        yield claims if lost else [*claims, *outcomes]


def answers(history: TableHistory) -> dict[str, object]:
    """All that a plan, a load or a sensor asks, of all days and of each."""
    found: dict[str, object] = {
        "last_final_batch": dict(history.last_final_batch),
        "published_days": history.published_days,
        "to_load_again": {d: paths for d, paths in history.to_load_again.items() if paths},
        **{name: dict(getattr(history, name)) for name in OF_A_DAY},
        "numbers": (history.last_batch, history.high, history.last, history.was_rewound),
        "unsettled": history.unsettled,
        "to_retract": {day: history.to_retract(day) for day in sorted(history.days_to_retract)},
        "quarantined": sorted(history.days_with_quarantine),
        "newest": list(history.newest_first()),
        "newest up to": list(history.newest_first(5)),
        "watermarks": dict(history.watermarks(EVENTS)),
        "last changes": (dict(history.last_touched), dict(history.last_looked_up)),
        "above": list(history.above(5)),
    }
    for day in map(jan, range(1, 10)):
        found[f"{day}"] = (
            history.watermark(EVENTS, day),
            history.watermark(USERS, day),
            history.published_up_to(EVENTS, day),
            dict(history.files(day)),
            list(history.of_day(day)),
            list(history.since_rebuilt(day)),
            sorted(history.codes(day)),
            history.position(day),
            history.judged(day),
        )
        for low in (0, 4, 11, 99):
            found[f"{day} above {low}"] = (
                history.changes(day, low),
                sorted(history.looked_up_changes(day, low), key=lambda e: (e.batch, e.day)),
            )
    return found


@pytest.mark.parametrize(
    "seed",
    [
        0,
        4,
        *(
            pytest.param(seed, marks=thorough("ledger/test_indexed_history.py: seeds 0 and 4"))
            for seed in (1, 2, 3, *range(5, 12))
        ),
    ],
)
def test_all_questions_have_the_answers_that_the_whole_history_gives(
    ledger: Ledger, other: Ledger, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    small = chance.choice((0, 256 * 1024))  # each file is a full one, or none is
    monkeypatch.setattr("incremental_assets.ledger.maintenance.SMALL_BYTES", small)
    if chance.random() < 0.3:
        without_statistics(ledger)
    ledger.view()
    batches = list(invented(chance, 14))
    for batch in batches:
        write_deltalake(ledger.path, to_frame(batch), mode="append")
        if chance.random() < 0.2:
            monkeypatch.setattr("incremental_assets.ledger.maintenance.SMALL_BYTES", 256 * 1024)
            table = DeltaTable(ledger.path)
            compact_if_due(other.snapshot(), table, at_files=2)
            monkeypatch.setattr("incremental_assets.ledger.maintenance.SMALL_BYTES", small)
        if chance.random() < 0.1:
            compact(other)  # the cached index now names files that are gone
    whole = TableHistory(SALES, ledger.view().table(SALES).entries)
    expected = list(invented(chance, 3))
    more = [[replace(e, batch=e.batch + 20) for e in b if e.state != "claimed"] for b in expected]

    now = Ledger(ledger.path).view().table(SALES)

    assert isinstance(now, IndexedHistory)
    assert answers(now) == answers(whole)
    for outcomes in more:
        now, whole = now.followed_by(outcomes), TableHistory(SALES, (*whole.entries, *outcomes))
        assert answers(now) == answers(whole)


def history(batches: int) -> list[Entry]:
    """A table that is loaded eight times a day, each batch into its own day and the one before."""
    found = []
    for batch in range(1, batches + 1):
        day = date.fromordinal(date(2017, 1, 1).toordinal() + batch // 8)
        days = (Touched(day, 1), Touched(date.fromordinal(day.toordinal() - 1), 1))
        windows = (Window(EVENTS, batch - 1, batch),)
        done = entry(batch, "committed", day=day, touched=days, affects=(), windows=windows)
        found += [entry(batch, day=day, windows=windows), done]
    return found


def test_a_history_ten_times_as_long_is_not_read_for_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: list[int]
) -> None:
    found = {}
    for many in (200, 2_000):
        path = str(tmp_path / str(many))
        filled(path, history(many), monkeypatch)
        read.clear()

        now = Ledger(path).view().table(SALES)
        for batch in (many, many + 8, many - 100):
            day = date.fromordinal(date(2017, 1, 1).toordinal() + batch // 8)
            assert len(now.of_day(day)) == (8 if batch <= many - 8 else len(now.of_day(day)))
            _ = now.held.get(day), now.files(day), now.changes(day, batch), now.codes(day)
        _ = now.last_batch, now.high, now.last, dict(now.accepted), list(now.touching)
        found[many] = len(read), sum(read)

    assert found[2_000] == found[200]
    assert found[200][1] < 400


def test_the_newest_batch_is_found_without_an_entry_of_each_row_of_its_file(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(ledger, entry(1, "committed"))
    write_deltalake(ledger.path, to_frame(history(1_000)[2:]), mode="append")
    now = Ledger(ledger.path).view().table(SALES)
    made: list[int] = []
    make = reader.from_frame

    def counting(rows: pl.DataFrame) -> list[Entry]:
        made.append(rows.height)
        return make(rows)

    monkeypatch.setattr(reader, "from_frame", counting)

    assert next(now.newest_first()).batch == 1_000
    assert sum(made) < 200
    made.clear()
    assert [e.batch for e in now.newest_first()] == list(range(1_000, 0, -1))
    assert sum(made) == 1_000


def test_a_batch_is_added_to_the_index_of_its_table_on_its_own_days_alone(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(ledger, *(entry(1, "committed", table=USERS, day=jan(day)) for day in DAYS))
    append(ledger, *(entry(day, "committed", day=jan(day)) for day in DAYS))
    before = index_at(ledger.snapshot())
    users = before.table(USERS)
    merged: list[int] = []
    merge = day_index._merged

    def counting(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
        some = list(frames)
        merged.extend(frame.height for frame in some)
        return merge(some)

    monkeypatch.setattr(day_index, "_merged", counting)
    append(ledger, entry(9, "committed", day=jan(3), affects=()))

    after = index_at(ledger.snapshot(), before)

    committed = {jan(day): day for day in DAYS} | {jan(3): 9}
    assert dict(after.table(SALES).numbers("committed")) == committed
    assert max(merged) == 1
    assert after.table(USERS) is users


def test_the_index_is_cached_with_the_ledger_and_rebuilt_where_it_does_not_fit(
    ledger: Ledger,
) -> None:
    append(ledger, entry(1), entry(1, "committed"), entry(2), entry(2, "held"))
    made = index_at(ledger.snapshot())
    ledger.compact()
    kept = read_index(ledger.path)
    assert kept is not None
    assert kept.paths == {file.path for file in ledger.snapshot().files}
    assert kept.table(SALES) == made.table(SALES)

    DeltaTable(ledger.path).restore(2)  # to before the second batch
    back = Ledger(ledger.path).view().table(SALES)

    assert (back.last_batch, dict(back.held)) == (1, {})


def test_a_day_is_known_by_the_files_that_were_loaded_for_it(ledger: Ledger) -> None:
    a, b = FileEntry("a", 1, "digest", "at one"), FileEntry("b", 2, "tag", "")
    back = entry(4, "committed", kind="rewind", day=jan(2), files=(b,))
    append(ledger, entry(1, "committed", files=(a,)), entry(2, "held", files=(b,)))
    append(ledger, entry(3, "committed", files=(b,)), entry(3, "committed", day=jan(3), files=(b,)))
    ledger.compact()
    append(ledger, replace(back, day=jan(3)))
    now, day = Ledger(ledger.path).view().table(SALES), entry(1).day

    assert now.has_exactly(day, fingerprint([b, replace(a, tag="")]))
    assert not any(
        now.has_exactly(day, fingerprint(files))
        for files in ([], [a], [a, b, b], [a, replace(b, tag="x")], [replace(a, modified="2"), b])
    )
    assert not now.has_exactly(jan(3), fingerprint([b]))  # it was rewound
    again = now.followed_by([entry(5, "committed", files=(FileEntry("c", 1, "", "1"),))])
    assert again.has_exactly(day, fingerprint([a, b, FileEntry("c", 1, "", "1")]))
