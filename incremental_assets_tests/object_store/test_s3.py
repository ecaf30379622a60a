"""A lake over the S3 protocol, as far as it goes without Spark: its ledger, commits and tidying."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import dagster as dg
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from incremental_assets import build_definitions
from incremental_assets.catalog import table_named, tables
from incremental_assets.delta.clone import clone
from incremental_assets.delta.compact import CompactionGroup, commit_compaction
from incremental_assets.delta.delta_log import find_commit, keep_log_short, put_fence
from incremental_assets.delta.delta_table import bytes_of, ensure_table, version_of
from incremental_assets.delta.publish import publish
from incremental_assets.delta.read import DataFile, plain_files
from incremental_assets.delta.stage import Staged, StagedFile, discard_batch, folder_of
from incremental_assets.delta.transaction import Transaction
from incremental_assets.delta.vacuum import (
    announce_removal,
    drop,
    first_complete_version,
    unreferenced,
    version_at,
    without_needed,
)
from incremental_assets.errors import ConflictError, LakeError
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.ledger.view import LedgerView
from incremental_assets.maintenance import maintain
from incremental_assets.query import query
from incremental_assets.retail.reports import reports
from incremental_assets.settings import PREFIX, Settings
from incremental_assets.storage import files_below, open_file, open_store
from incremental_assets.verifying.scratch import scratch_lake
from incremental_assets_tests.object_store.conftest import APP, DAY, either_name
from incremental_assets_tests.thorough import thorough

NOON = datetime(2017, 1, 3, 12, tzinfo=UTC)


def claim(view: LedgerView) -> Sequence[Entry]:
    number = view.table(APP).last_batch + 1
    return [
        Entry(
            table=APP,
            batch=number,
            day=DAY,
            state="claimed",
            kind="advance",
            mode="merge",
            detector="batches",
            recorded_at=NOON,
        )
    ]


def staged(path: str, batch: int) -> Staged:
    """A file of one row, put where a batch stages its files."""
    name = f"{folder_of(APP, batch)}-abcd/dt={DAY}/part-0.parquet"
    store, inside = open_store(path)
    with store.open(f"{inside}/{name}", "wb") as stream:
        pq.write_table(pa.table({"_batch": pa.array([batch], pa.int64())}), stream)
    size = store.info(f"{inside}/{name}")["size"]
    file = StagedFile(name, size, 0, {"dt": str(DAY)}, 1, json.dumps({"numRecords": 1}))
    fields = [("_batch", "long"), ("dt", "date")]
    return Staged(
        path,
        (file,),
        tuple({"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in fields),
    )


def test_racing_claims_never_get_the_same_number(bucket: str) -> None:
    ledger = Ledger(ledger_path(f"{bucket}/lake"))
    ledger.transact(claim)

    with ThreadPoolExecutor(4) as pool:
        for done in [
            pool.submit(Ledger(ledger_path(f"{bucket}/lake")).transact, claim) for _ in range(4)
        ]:
            done.result()

    numbers = [e.batch for e in Ledger(ledger_path(f"{bucket}/lake")).view().table(APP).entries]
    assert sorted(numbers) == [1, 2, 3, 4, 5]


def test_a_ledger_joins_its_files_and_tells_where_a_table_stands(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("incremental_assets.ledger.maintenance.COMPACT_AT_FILES", 5)
    path = ledger_path(f"{bucket}/lake")

    for _ in range(6):
        Ledger(path).transact(claim)

    assert len(DeltaTable(path).file_uris()) == 2
    assert Ledger(path).tail(APP).last_batch == 6
    assert [e.batch for e in Ledger(path).view().table(APP).entries] == [1, 2, 3, 4, 5, 6]


def test_of_two_writers_of_a_number_one_publishes(table: str) -> None:
    first, second = staged(table, 1), staged(table, 1)
    publish(first, Transaction(APP, 1, "{}"))

    with pytest.raises(ConflictError):
        publish(second, Transaction(APP, 1, "{}"))

    assert sum(f.num_rows for f in map(_rows, DeltaTable(table).file_uris())) == 1


def test_a_fence_keeps_a_late_writer_out_and_what_it_staged_is_removed(table: str) -> None:
    late = staged(table, 1)
    assert put_fence(table, APP, 1)

    with pytest.raises(ConflictError):
        publish(late, Transaction(APP, 1, "{}"))
    discard_batch(table, APP, 1)

    assert [f for f in files_below(table) if f.path.endswith(".parquet")] == []
    commit = find_commit(table, APP, 1)
    assert commit is not None
    assert commit.note["fence"] is True


def test_what_was_published_can_be_read_from_the_log(table: str) -> None:
    publish(staged(table, 1), Transaction(APP, 1, '{"batch": 1}'))

    commit = find_commit(table, APP, 1)

    assert commit is not None
    assert commit.version == version_of(table)
    assert commit.added == {(str(DAY),): 1}


def test_a_bucket_that_is_not_there_is_named(server: str) -> None:
    path = "s3://no-such-bucket/lake/silver/sales"

    with pytest.raises(LakeError, match="no-such-bucket"):
        ensure_table(path, APP, (("_batch", "long"), ("dt", "date")), ("dt",))


def _rows(uri: str) -> pq.FileMetaData:
    with open_file(uri) as stream:
        return pq.read_metadata(stream)


@either_name
def test_files_are_exchanged_and_those_that_nobody_needs_are_removed(table: str) -> None:
    small = [staged(table, batch) for batch in (1, 2)]
    for batch, one in enumerate(small, start=1):
        publish(one, Transaction(APP, batch, "{}"))
    files = tuple(DataFile(one.files[0].path, {"dt": DAY}) for one in small)
    joint, joined = CompactionGroup((str(DAY),), files), staged(table, 0)
    later = datetime.now(UTC) + timedelta(days=3)
    left = staged(table, 9)

    assert commit_compaction(joined, [joint]) == [joint]
    assert commit_compaction(joined, [joint]) == []  # they are gone
    assert keep_log_short(table, 3, cut=True) == 3
    found = unreferenced(table, later)
    announce_removal(table, version_at(table, later))
    drop(table, without_needed(table, found, [1]))

    assert {f.path for f in found} == {f.path for one in (*small, left) for f in one.files}
    assert first_complete_version(table) == 3
    assert DeltaTable(table).version() == 3
    data = {f.path for f in files_below(table) if f.path.startswith("batch-")}
    assert data == {joined.files[0].path, files[0].path}


def test_who_has_no_locks_asks_the_ledger_for_a_load_that_is_under_way(bucket: str) -> None:
    lake = f"{bucket}/lake"
    Ledger(ledger_path(lake)).transact(claim)
    path = f"{lake}/quarantine/silver_sales"
    rows = pa.table({"_day": [DAY], "first_seen": pa.array([NOON], pa.timestamp("us", "UTC"))})
    write_deltalake(path, rows, partition_by=["_day"])
    settings = Settings.from_environment({f"{PREFIX}LAKE": lake, f"{PREFIX}QUARANTINE_DAYS": "9"})
    table = table_named(tables(), APP)

    def no_spark() -> SparkSession:
        raise AssertionError

    (kept,) = maintain(settings, [table], no_spark, datetime.now(UTC)).tables

    assert "a load of silver/sales is in progress" in kept.skipped[0]
    assert DeltaTable(path).version() == 0


def test_a_clone_stands_on_the_files_of_the_other_table_and_nothing_is_written_to_it(
    table: str, bucket: str
) -> None:
    publish(staged(table, 1), Transaction(APP, 1, "{}"))
    before, to = version_of(table), f"{bucket}/scratch/bronze/sales"

    clone(table, before, to)

    log = json.loads(open_file(f"{to}/_delta_log/{1:020d}.json").read().splitlines()[-1])
    assert log["add"]["path"] == f"{table}/{folder_of(APP, 1)}-abcd/dt={DAY}/part-0.parquet"
    assert (bytes_of(to), version_of(table)) == (bytes_of(table), before)
    with pytest.raises(LakeError, match="has files in another table's folder"):
        plain_files(to, version_of(to))


def test_a_scratch_folder_is_gone_at_the_end_and_an_old_one_is_removed(bucket: str) -> None:
    place, logged = f"{bucket}/lake/_scratch", list[str]()
    for name in ("verify-20170103T110000-abcd", "verify-20161231T110000-abcd"):
        store, inside = open_store(f"{place}/{name}/part-0.parquet")
        store.pipe(inside, b"rows")

    with scratch_lake(place, NOON, 1, logged.append) as folder:
        ensure_table(f"{folder}/silver/sales", APP, (("_batch", "long"),), ())

    assert logged == [
        f"{place}/verify-20161231T110000-abcd was left by a run that died, and is removed"
    ]
    assert [file.path for file in files_below(place)] == [
        "verify-20170103T110000-abcd/part-0.parquet"
    ]


@thorough(
    "object_store/test_s3.py, retail/reports/test_charts.py: the store, and the reports on a disk"
)
def test_reports_are_read_stored_and_drawn_in_the_store(bucket: str, settings: Settings) -> None:
    settings = settings.replace(lake=f"{bucket}/a lake", end_date=date(2017, 1, 31))
    gold = {"dt": [DAY] * 2, "product_id": ["a", "b"], "store_id": "s", "units": 1, "orders": 2}
    write_deltalake(
        f"{settings.lake}/gold/daily_product_sales",
        pl.DataFrame(gold | {"revenue": [1.5, 2.25]}),
        partition_by=["dt"],
    )
    made = build_definitions(tables(), settings, downstream=[reports])
    names = ("reports/daily_sales", "reports/pipeline_health")
    job = made.resolve_implicit_global_asset_job_def()

    for _ in range(2):
        done = job.execute_in_process(
            asset_selection=[dg.AssetKey(name.split("/")) for name in names],
            partition_key=str(DAY),
        )
        assert done.success

    stored = query(DeltaTable(f"{settings.lake}/{names[0]}"), "dt, revenue, orders")
    assert stored.rows() == [(DAY, Decimal("3.75"), 4)]
    with open_file(f"{settings.lake}/reports/index.html") as page:
        assert b"01-02: 3.75" in page.read()
    store, inside = open_store(f"{settings.lake}/reports/index.html")
    assert store.info(inside)["ContentType"] == "text/html; charset=utf-8"
