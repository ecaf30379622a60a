"""The ledger stays small by itself: few files, a short log, no entry lost and none twice."""

from __future__ import annotations

import os
import random
import shutil
import time
import uuid
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

import pytest
from deltalake import DeltaTable

from incremental_assets.ledger.entry import FORMAT_VERSION, Entry
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.maintenance import COMPACT_AT_FILES, compact_if_due, configuration
from incremental_assets.ledger.view import LedgerView
from incremental_assets_tests.ledger.entries import (
    SALES,
    USERS,
    append,
    claim,
    compact,
    entry,
    files,
    numbers,
)

MAINTENANCE = "incremental_assets.ledger.maintenance"


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """New ledgers keep nothing that is not needed now, not even for minutes."""

    def at_once(path: str) -> dict[str, str]:
        return configuration(path) | {
            "delta.logRetentionDuration": "interval 0 seconds",
            "delta.deletedFileRetentionDuration": "interval 0 seconds",
        }

    monkeypatch.setattr("incremental_assets.ledger.ledger.configuration", at_once)
    monkeypatch.setattr(f"{MAINTENANCE}.KEPT_HOURS", 0)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> int:
    """As many files as are compacted here; really there are more, and that takes longer."""
    monkeypatch.setattr(f"{MAINTENANCE}.COMPACT_AT_FILES", 8)
    return 8


def on_disk(ledger: Ledger) -> int:
    return len(list(Path(ledger.path).rglob("part-*.parquet")))


def log(ledger: Ledger) -> int:
    return len(list((Path(ledger.path) / "_delta_log").glob("*.json")))


def test_compaction_keeps_every_entry_and_few_files(ledger: Ledger) -> None:
    for _ in range(COMPACT_AT_FILES - 1):
        claim(ledger)
    before = files(ledger)

    claim(ledger)

    assert before == COMPACT_AT_FILES - 1
    assert files(ledger) == 1
    assert numbers(ledger) == list(range(1, COMPACT_AT_FILES + 1))
    assert claim(ledger) == COMPACT_AT_FILES + 1


def test_compaction_waits_for_files_that_can_be_compacted(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{MAINTENANCE}.COMPACT_AT_FILES", 3)
    append(ledger, *(entry(1, table=f"table {n}") for n in range(6)))
    alone = (files(ledger), ledger.view().version)

    append(ledger, entry(2, table="table 0"), entry(3, table="table 0"))

    assert alone == (6, 6)  # a commit each, and no other
    assert files(ledger) == 6
    assert numbers(ledger, "table 0") == [1, 2, 3]


def test_a_full_file_is_left_alone(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{MAINTENANCE}.COMPACT_AT_FILES", 3)
    monkeypatch.setattr(f"{MAINTENANCE}.SMALL_BYTES", 30_000)
    append(ledger, entry(1, why=random.Random(1).randbytes(40_000).hex()))
    (full,) = DeltaTable(ledger.path).file_uris()

    append(ledger, entry(2), entry(3), entry(4))

    left = DeltaTable(ledger.path).file_uris()
    assert full in left
    assert len(left) == 2
    assert numbers(ledger) == [1, 2, 3, 4]


def test_a_compacted_file_tells_the_bounds_of_its_rows_and_a_single_one_stays(
    ledger: Ledger,
) -> None:
    append(ledger, entry(1, table=USERS))
    (single,) = ledger.snapshot().files
    append(ledger, entry(2, "held", day=date(2017, 1, 5)), entry(4, high="7"))

    compact(ledger)

    (compacted,) = ledger.snapshot().of(SALES)
    assert ledger.snapshot().of(USERS) == [single]
    assert compacted.low == {
        "batch": 2,
        "day": date(2017, 1, 2),
        "state": "claimed",
        "kind": "advance",
        "high": "",
        "format_version": FORMAT_VERSION,
    }
    assert compacted.high == {
        **compacted.low,
        "batch": 4,
        "day": date(2017, 1, 5),
        "state": "held",
        "high": "7",
    }


def test_an_append_after_a_compaction_that_it_did_not_see_decides_again(
    ledger: Ledger, other: Ledger
) -> None:
    claim(ledger)
    claim(ledger)
    decided: list[int] = []

    def decide(view: LedgerView) -> Sequence[Entry]:
        decided.append(view.table(SALES).last_batch)
        if len(decided) == 1:
            compact(other)
        return [entry(3)]

    ledger.transact(decide)

    assert decided == [2, 2]
    assert numbers(ledger) == [1, 2, 3]


def test_of_two_compactions_of_the_same_files_one_gives_way(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(ledger, *(entry(n) for n in range(1, 6)))
    monkeypatch.setattr(f"{MAINTENANCE}.COMPACT_AT_FILES", 3)
    mine, others = DeltaTable(ledger.path), DeltaTable(ledger.path)
    seen = ledger.snapshot()

    compact_if_due(seen, others)
    compact_if_due(seen, mine)

    assert files(ledger) == 1
    assert numbers(ledger) == [1, 2, 3, 4, 5]


def test_a_view_outlives_the_files_that_it_was_read_from(
    ledger: Ledger, other: Ledger, soon: int, forgetful: None
) -> None:
    append(ledger, *(entry(n) for n in range(1, 5)))
    view = ledger.view()
    before = set(Path(ledger.path).rglob("part-*.parquet"))

    for _ in range(soon):
        claim(other)

    assert before.isdisjoint(Path(ledger.path).rglob("part-*.parquet"))
    assert [e.batch for e in view.table(SALES).entries] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda ledger: append(ledger, entry(9)), id="an append"),
        pytest.param(
            lambda ledger: ledger.replace_tables([SALES], lambda _: [entry(9)]), id="a rebuild"
        ),
    ],
)
def test_a_checkpoint_that_cannot_be_written_fails_no_entry(
    ledger: Ledger, write: Callable[[Ledger], None]
) -> None:
    append(ledger, *(entry(n) for n in range(1, 9)))
    hint = Path(ledger.path) / "_delta_log" / "_last_checkpoint"
    (hint / "in the way").mkdir(parents=True)

    write(ledger)

    assert ledger.view().version == 9  # at which a checkpoint is due
    assert numbers(ledger)[-1] == 9
    shutil.rmtree(hint)
    append(ledger, *(entry(n) for n in range(10, 20)))
    assert hint.is_file()


@pytest.mark.usefixtures("forgetful")
def test_replaced_files_do_not_stay_on_disk(ledger: Ledger, soon: int) -> None:
    for _ in range(3 * soon):
        claim(ledger)

    assert on_disk(ledger) < 2 * soon
    assert numbers(Ledger(ledger.path)) == list(range(1, 3 * soon + 1))


@pytest.mark.usefixtures("forgetful")
def test_old_commits_do_not_stay_in_the_log(
    ledger: Ledger, soon: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # delta-rs drops them with a vacuum, too, but only where that has found something.
    monkeypatch.setattr(DeltaTable, "vacuum", lambda *_, **__: [])

    for _ in range(3 * soon):
        claim(ledger)

    assert log(ledger) < 2 * soon + 4
    assert numbers(Ledger(ledger.path)) == list(range(1, 3 * soon + 1))


def test_what_is_new_stays_for_whoever_still_reads_it(ledger: Ledger, soon: int) -> None:
    for _ in range(soon):
        claim(ledger)

    assert on_disk(ledger) > soon
    assert log(ledger) > soon
    assert numbers(Ledger(ledger.path)) == list(range(1, soon + 1))


def written(path: Path, hours_ago: float) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    os.utime(path, (time.time() - 3600 * hours_ago,) * 2)
    return path


def test_only_old_files_of_the_ledger_itself_are_removed(ledger: Ledger, soon: int) -> None:
    claim(ledger)
    claim(ledger, "a target %")
    root = Path(ledger.path)
    name = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
    killed = [written(folder / name, hours_ago=25) for folder in root.glob("table=*")]
    (folder, *_) = root.glob("table=*")
    # Of another writer, which has not committed yet; its clock may be behind.
    uncommitted = written(folder / name.replace("00000", "00001"), hours_ago=23)
    others = [
        written(root / path, hours_ago=2000)
        for path in (
            "orders.csv",
            "source/2017-01-01/orders.parquet",
            f"target/{name}",
            f"target/table=1/{name}",
            "target/_delta_log/00000000000000000000.json",
            "table=1/part-00000-1d5f6a42-8b86-4f6e-a3b1-1f1d2e3c4b5a.c000.snappy.parquet",
            f"table=1/day=2/{name}",
        )
    ]

    for _ in range(soon):
        claim(ledger)

    assert files(ledger) < soon
    assert len(killed) == 2
    assert not any(file.exists() for file in killed)
    assert uncommitted.exists()
    assert [file for file in others if not file.exists()] == []
