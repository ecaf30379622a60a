"""The ledger's table: claims by compare-and-set, final outcomes, compaction, and what it refuses."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable, write_deltalake

from incremental_assets.errors import ConflictError, LedgerError
from incremental_assets.ledger.entry import (
    FORMAT_VERSION,
    SCHEMA,
    Entry,
    FileEntry,
    State,
    Touched,
    Window,
    from_row,
    to_frame,
)
from incremental_assets.ledger.ledger import COMPACT_AT_FILES, TRIES, Ledger
from incremental_assets.ledger.settle import record
from incremental_assets.ledger.view import LedgerView

SALES = "silver/sales"
DAY = date(2017, 1, 2)
NOON = datetime(2017, 1, 3, 12, tzinfo=UTC)


def entry(batch: int, state: State = "claimed", table: str = SALES) -> Entry:
    return Entry(
        table=table,
        batch=batch,
        day=DAY,
        state=state,
        kind="advance",
        mode="merge",
        detector="batches",
        recorded_at=NOON,
    )


def next_number(claimed: list[int], table: str = SALES) -> Callable[[LedgerView], Sequence[Entry]]:
    """A decision that claims the number after the last one, and notes which it was."""

    def decide(view: LedgerView) -> Sequence[Entry]:
        claimed[:] = [view.table(table).last_batch + 1]
        return [entry(claimed[0], table=table)]

    return decide


def claim(ledger: Ledger, table: str = SALES) -> int:
    claimed: list[int] = []
    ledger.transact(next_number(claimed, table))
    return claimed[0]


def numbers(ledger: Ledger, table: str = SALES) -> list[int]:
    return [e.batch for e in ledger.view().table(table).entries]


def test_the_ledger_of_a_new_lake_is_empty(tmp_path: Path) -> None:
    view = Ledger(str(tmp_path)).view()

    assert view.tables == {}
    assert view.table(SALES).entries == ()


def test_claims_of_a_table_are_numbered_from_one(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))

    assert [claim(ledger), claim(ledger), claim(ledger)] == [1, 2, 3]
    assert numbers(ledger) == [1, 2, 3]


def test_each_table_has_numbers_of_its_own(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))

    assert [claim(ledger), claim(ledger, "silver/users"), claim(ledger)] == [1, 1, 2]


def test_an_entry_comes_back_as_it_was_written(tmp_path: Path) -> None:
    written = replace(
        entry(7, "held"),
        windows=(Window("bronze/events", 3, 5), Window("silver/users", 0, 0)),
        files=(FileEntry("events/2017-01-02/ä b.jsonl", 2**40, "tag", "1"),),
        touched=(Touched(date(2017, 1, 1), 5), Touched(DAY, 0)),
        affects=(DAY,),
        rows_read=2**40,
        rows_quarantined=3,
        seconds=1.25,
        target_version=0,
        held_by="quarantined_share: 3 of 5",
        why='a "quoted" reason\nof two lines',
    )
    ledger = Ledger(str(tmp_path))

    ledger.transact(lambda _: [written])

    assert Ledger(str(tmp_path)).view().table(SALES).entries == (written,)


def test_that_every_day_is_affected_is_kept_apart_from_none(tmp_path: Path) -> None:
    every, none = replace(entry(1), affects=None), replace(entry(2), affects=())

    Ledger(str(tmp_path)).transact(lambda _: [every, none])

    assert [e.affects for e in Ledger(str(tmp_path)).view().table(SALES).entries] == [None, ()]


def test_the_schema_has_a_column_for_each_field_of_an_entry() -> None:
    frame = to_frame([entry(1)])

    assert frame.columns == list(SCHEMA)
    assert from_row(frame.row(0, named=True)) == entry(1)


def test_deciding_for_nothing_writes_nothing(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    before = ledger.view().version

    ledger.transact(lambda _: [])

    assert ledger.view().version == before


def test_a_decision_that_raises_writes_nothing(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    claim(ledger)

    def refuse(view: LedgerView) -> Sequence[Entry]:
        raise ConflictError(f"batch {view.table(SALES).last_batch} is another's")

    with pytest.raises(ConflictError, match="batch 1 is another's"):
        ledger.transact(refuse)

    assert numbers(ledger) == [1]


def test_who_was_overtaken_decides_again_on_what_is_there_now(tmp_path: Path) -> None:
    mine, other = Ledger(str(tmp_path)), Ledger(str(tmp_path))
    seen: list[int] = []

    def decide(view: LedgerView) -> Sequence[Entry]:
        seen.append(view.table(SALES).last_batch)
        if len(seen) == 1:
            claim(other)
        return [entry(seen[-1] + 1)]

    mine.transact(decide)

    assert seen == [0, 1]
    assert numbers(mine) == [1, 2]


def test_who_is_overtaken_for_ever_gives_up_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("incremental_assets.ledger.ledger.TRIES", 3)
    mine, other = Ledger(str(tmp_path)), Ledger(str(tmp_path))
    decided: list[int] = []

    def too_slow(view: LedgerView) -> Sequence[Entry]:
        decided.append(view.table(SALES).last_batch)
        claim(other)
        return [entry(99)]

    with pytest.raises(ConflictError, match=r"changed by others 3 times in a row.*run again"):
        mine.transact(too_slow)

    assert decided == [0, 1, 2]
    assert numbers(other) == [1, 2, 3]
    assert TRIES > 3


def test_racing_claims_never_get_the_same_number(tmp_path: Path) -> None:
    Ledger(str(tmp_path)).view()
    start = threading.Barrier(4)
    won: list[int] = []

    def claim_five() -> None:
        ledger = Ledger(str(tmp_path))
        start.wait()
        won.extend(claim(ledger) for _ in range(5))

    racers = [threading.Thread(target=claim_five) for _ in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()

    assert sorted(won) == list(range(1, 21))
    assert numbers(Ledger(str(tmp_path))) == list(range(1, 21))


def test_an_outcome_is_final(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    claim(ledger)

    record(ledger, SALES, [entry(1, "abandoned")])
    record(Ledger(str(tmp_path)), SALES, [entry(1, "committed")])

    assert [e.state for e in ledger.view().table(SALES).outcomes] == ["abandoned"]


def test_compaction_keeps_every_entry_and_few_files(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    for _ in range(COMPACT_AT_FILES - 1):
        claim(ledger)
    before = files(ledger)

    claim(ledger)

    assert before == COMPACT_AT_FILES - 1
    assert files(ledger) == 1
    assert numbers(ledger) == list(range(1, COMPACT_AT_FILES + 1))
    assert claim(ledger) == COMPACT_AT_FILES + 1


def test_an_append_after_a_compaction_that_it_did_not_see_decides_again(tmp_path: Path) -> None:
    mine, other = Ledger(str(tmp_path)), Ledger(str(tmp_path))
    claim(mine)
    claim(mine)
    decided: list[int] = []

    def decide(view: LedgerView) -> Sequence[Entry]:
        decided.append(view.table(SALES).last_batch)
        if len(decided) == 1:
            DeltaTable(other.path).optimize.compact()
        return [entry(3)]

    mine.transact(decide)

    assert decided == [2, 2]
    assert numbers(mine) == [1, 2, 3]


def test_a_ledger_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    claim(ledger)
    newer = replace(entry(2), format_version=FORMAT_VERSION + 1)
    write_deltalake(ledger.path, to_frame([newer]), mode="append")

    with pytest.raises(LedgerError) as raised:
        ledger.view()

    message = str(raised.value)
    assert "_ledger" in message
    assert f"format {FORMAT_VERSION + 1}" in message
    assert f"this program knows format {FORMAT_VERSION}" in message
    assert "Use the version of incremental_assets that wrote it, or a newer one" in message


def test_a_newer_ledger_is_not_written_either(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    newer = replace(entry(1), format_version=FORMAT_VERSION + 1)
    ledger.transact(lambda _: [newer])
    version = DeltaTable(ledger.path).version()

    with pytest.raises(LedgerError, match="of another version"):
        claim(Ledger(str(tmp_path)))

    assert DeltaTable(ledger.path).version() == version


def test_a_table_in_the_ledgers_place_without_its_columns_is_refused(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    write_deltalake(ledger.path, pl.DataFrame({"table": ["x"], "batch": [1]}))

    with pytest.raises(LedgerError, match=r"of another version.*'format_version'"):
        ledger.view()


def test_a_lake_that_cannot_be_created_names_the_place_and_the_variable(tmp_path: Path) -> None:
    file = tmp_path / "a file"
    file.write_text("in the way")
    lake = str(file / "lake")

    with pytest.raises(LedgerError) as raised:
        Ledger(lake).view()

    assert f"The lake is not writable: {lake}/_ledger cannot be created" in str(raised.value)
    assert "Set INCREMENTAL_ASSETS_LAKE to a place where this user may write" in str(raised.value)


def test_a_ledger_whose_log_is_broken_cannot_be_read_and_says_where(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    claim(ledger)
    (Path(ledger.path) / "_delta_log" / f"{1:020d}.json").write_text("{broken")

    with pytest.raises(LedgerError, match="_ledger cannot be read"):
        Ledger(str(tmp_path)).view()


def files(ledger: Ledger) -> int:
    return len(DeltaTable(ledger.path).file_uris())
