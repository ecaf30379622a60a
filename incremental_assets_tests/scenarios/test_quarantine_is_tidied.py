"""Rows that leave quarantine are taken away after that is on record; no load depends on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from incremental_assets.days import parse_day
from incremental_assets.delta import side_table
from incremental_assets.delta.quarantine import Quarantine
from incremental_assets.maintenance import maintain
from incremental_assets.operations.quarantined import QuarantineFilter, drop, in_quarantine
from incremental_assets.testing import Killed
from incremental_assets.verifying.verify import verify
from incremental_assets_tests.made_once import MadeOnce
from incremental_assets_tests.scenarios.test_interrupted import die
from incremental_assets_tests.scenarios.world import TABLES, World, sale, sales
from incremental_assets_tests.thorough import thorough

DAY = "2017-01-05"
SALES = TABLES["silver/sales"]


def repaired(world: World) -> None:
    world.land("events", DAY, "a.jsonl", [*sales("a", DAY, 40), sale(None, DAY)])
    world.load(DAY, "bronze/events", "silver/sales")
    world.land("events", DAY, "a.jsonl", sales("a", DAY, 41))
    world.load(DAY, "bronze/events")


@pytest.fixture
def bad(world: World, made_once: MadeOnce) -> World:
    """A day with a row in quarantine, whose file has been repaired since."""
    return world.as_after(repaired, made_once)


def spoil(world: World, last_batch: int) -> None:
    """Make the row in quarantine bytes that are no text, as an older version could keep them.

    `last_batch` is what the log says of the file: it may hold rows of more than one batch.
    """
    path = world.path("quarantine/silver_sales")
    table = DeltaTable(path)
    (uri,) = table.file_uris()
    rows = pq.read_table(uri, partitioning=None)
    raw = b"PK\x03\x04\xff\xfe"
    ends = pa.py_buffer((0).to_bytes(4, "little") + len(raw).to_bytes(4, "little"))
    bytes_as_text = pa.StringArray.from_buffers(1, ends, pa.py_buffer(raw))
    at = rows.schema.get_field_index("row")
    name = f"{Path(uri).parent.relative_to(path)}/spoilt.parquet"
    pq.write_table(rows.set_column(at, "row", bytes_as_text), f"{path}/{name}")
    stats = f'{{"numRecords":1,"minValues":{{"_batch":1}},"maxValues":{{"_batch":{last_batch}}}}}'
    now, size = int(time.time() * 1000), Path(path, name).stat().st_size
    table.create_write_transaction(
        [
            AddAction(name, size, {"_day": DAY}, now, True, stats),
            RemoveAction(uri.partition(f"{path}/")[2], True, now, 1, {"_day": DAY}),
        ],
        "append",
        table.schema(),
        partition_by=["_day"],
    )


def listed(world: World) -> pl.DataFrame:
    return in_quarantine(world.settings, [SALES], QuarantineFilter())


def keep(world: World) -> str:
    """Maintenance of the quarantine; what failed."""
    now = world.lakehouse.now()
    done = maintain(world.settings, [SALES], world.lakehouse.spark, now)
    return "; ".join(each.failed for each in done.tables if each.failed)


@pytest.mark.parametrize(
    "last_batch",
    [
        pytest.param(
            1,
            marks=thorough("scenarios/test_quarantine_is_tidied.py: a file of more batches"),
            id="a file of its own",
        ),
        pytest.param(9, id="a file of more batches"),
    ],
)
def test_a_row_that_nobody_can_decode_blocks_nothing(bad: World, last_batch: int) -> None:
    spoil(bad, last_batch)
    assert listed(bad)["rows"].to_list() == [1]

    bad.load(DAY, "silver/sales")

    view = bad.lakehouse.settle(SALES)
    assert [e.state for e in view.table("silver/sales").outcomes] == ["committed", "committed"]
    assert len(bad.orders()) == 41
    assert listed(bad).is_empty()
    assert not any("warning" in line for line in bad.logged)
    assert keep(bad) == ""
    assert drop(bad.lakehouse, SALES, QuarantineFilter(), "no such rows") == {}
    bad.lakehouse.replay(SALES, [parse_day(DAY)])
    bad.lakehouse.restate(SALES, [parse_day(DAY)], "to see that it can be")
    assert len(bad.orders()) == 41
    assert verify(bad.lakehouse, SALES).equal


def after_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("incremental_assets.engine.table_load.record", die)


def after_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Quarantine, "remove_outdated", die)


@thorough("feeds/test_interrupted.py, feeds/test_replay.py: loads and replays that die")
@pytest.mark.parametrize(
    "dies",
    [
        pytest.param(
            after_the_commit,
            marks=thorough(
                "scenarios/test_quarantine_is_tidied.py, scenarios/test_interrupted.py: "
                "a load that dies after the record, and one after the commit"
            ),
        ),
        after_the_record,
    ],
)
def test_a_load_that_dies_before_it_has_tidied_leaves_nothing_that_counts(
    bad: World, dies: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken, pytest.raises(Killed):
        dies(broken)
        bad.load(DAY, "silver/sales")

    bad.lakehouse.settle(SALES)

    assert listed(bad).is_empty()
    assert len(bad.orders()) == 41
    assert (
        bad.lakehouse.replay(SALES, [parse_day(DAY)]).days[parse_day(DAY)].entries[0].rows_read == 0
    )
    assert keep(bad) == ""
    assert bad.quarantine() == []


@thorough("feeds/test_replay.py: rows that are dropped")
def test_dropping_rows_that_cannot_be_taken_away_is_on_record_and_done_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = [sale(None, DAY), sale("b", DAY, qty=-1)]
    world.land("events", DAY, "a.jsonl", [*sales("a", DAY, 60), *odd])
    world.load(DAY, "bronze/events", "silver/sales")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(side_table.DeltaTable, "delete", full)
        dropped = drop(
            world.lakehouse,
            SALES,
            QuarantineFilter(reason="order_id_not_null"),
            "a till was broken",
        )

    assert dropped == {parse_day(DAY): 1}
    assert len(world.quarantine()) == 2
    assert listed(world)["reason"].to_list() == ["qty_at_least_0"]
    assert "No space left" in next(line for line in world.logged if "warning" in line)
    assert keep(world) == ""
    assert len(world.quarantine()) == 1
