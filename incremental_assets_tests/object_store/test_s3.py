"""Everything that goes on without Spark, over the S3 protocol: a real server, in a process."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import dagster as dg
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import s3fs
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
from incremental_assets.errors import ConflictError, LakeError, SourceError
from incremental_assets.ledger.entry import Entry
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.ledger.view import LedgerView
from incremental_assets.maintenance import maintain
from incremental_assets.query import query
from incremental_assets.retail.feed.land import LandSummary, land
from incremental_assets.retail.reports import reports
from incremental_assets.settings import PREFIX, Settings
from incremental_assets.sources.delta_commits import delta_files_since
from incremental_assets.sources.landed_files import LandedFiles, missing_or_changed
from incremental_assets.sources.source_file import with_content_tag
from incremental_assets.sources.stored import Stored, fixed_at
from incremental_assets.sources.stored_delta import FixedDelta
from incremental_assets.storage import files_below, open_file, open_store
from incremental_assets.verifying.scratch import scratch_lake
from incremental_assets_tests.thorough import thorough

APP = "silver/sales"
DAY = date(2017, 1, 2)
NOON = datetime(2017, 1, 3, 12, tzinfo=UTC)
STARTS_WITHIN_SECONDS = 60


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of an S3 server; its credentials are in the environment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + STARTS_WITHIN_SECONDS
    while socket.socket().connect_ex(("127.0.0.1", port)) and time.monotonic() < deadline:
        time.sleep(0.1)
    url = f"http://127.0.0.1:{port}"
    with pytest.MonkeyPatch.context() as environment:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            environment.setenv(name, "for-the-test")
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
            environment.setenv(name, "us-east-1")
        environment.setenv("AWS_ENDPOINT_URL", url)
        environment.setenv("AWS_ALLOW_HTTP", "true")
        try:
            yield url
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def bucket(request: pytest.FixtureRequest, server: str) -> str:
    """The URI of an empty bucket, by the name that Spark knows or by the one a test asks for."""
    uri = f"{getattr(request, 'param', 's3a')}://shop-{time.monotonic_ns()}"
    store, inside = open_store(uri)
    store.mkdir(inside)
    return uri


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


either_name = pytest.mark.parametrize(
    "bucket",
    [pytest.param("s3", marks=thorough("object_store/test_s3.py: as s3a")), "s3a"],
    indirect=True,
)


@pytest.fixture
def table(bucket: str) -> str:
    path = f"{bucket}/lake/silver/sales"
    ensure_table(path, APP, (("_batch", "long"), ("dt", "date")), ("dt",))
    return path


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


def test_what_was_published_can_be_told_from_the_log(table: str) -> None:
    publish(staged(table, 1), Transaction(APP, 1, '{"batch": 1}'))

    commit = find_commit(table, APP, 1)

    assert commit is not None
    assert commit.version == version_of(table)
    assert commit.added == {(str(DAY),): 1}


def land_some(landing: str) -> LandSummary:
    return land(landing, DAY, DAY, 0.0, 0.0, 0.0, sample=0.02, progress=lambda _: None)


def test_a_landed_feed_is_known_by_the_tags_of_the_store_and_its_day_left_alone(
    bucket: str,
) -> None:
    landing = f"{bucket}/landing"
    assert land_some(landing).written
    assert not land_some(landing).written
    feed = LandedFiles("users")

    before = feed.files(landing, DAY)
    store, inside = open_store(landing)
    store.pipe(f"{inside}/{before[0].path}", b'{"user_id": "1"}\n')
    after = feed.files(landing, DAY)

    assert feed.days(landing) == [DAY]
    assert [f.path for f in before] == [f.path for f in after]
    assert before[0].tag != after[0].tag != ""
    assert with_content_tag(landing, after[0]) == after[0]
    assert missing_or_changed(landing, after) == []


def test_many_days_of_a_feed_are_listed_at_once_as_each_would_be(bucket: str) -> None:
    landing = f"{bucket}/landing"
    days = [date(2017, 1, day) for day in range(1, 29)]
    store, inside = open_store(landing)
    names = ("2017-01-02/a.jsonl", "2017-01-02/b/c.jsonl", "2017-01-03/_aside.jsonl", "read.me")
    for name in names:
        store.pipe(f"{inside}/events/{name}", b"{}")
    feed = LandedFiles("events")

    found = feed.by_day(landing, days)

    assert list(found) == days
    assert [f.path for f in found[DAY]] == [f"events/{name}" for name in names[:2]]
    assert found == {day: feed.files(landing, day) for day in days}


@pytest.mark.parametrize("look", [LandedFiles("events").days, Stored.fix])
def test_a_store_that_does_not_answer_is_a_source_that_cannot_be_read(
    server: str, monkeypatch: pytest.MonkeyPatch, look: Callable[[object], object]
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    s3fs.S3FileSystem.clear_instance_cache()
    place = "s3://shop/landing"

    with pytest.raises(
        SourceError, match=rf"s3://shop/landing\S* cannot be read: no answer.*{url}"
    ):
        look(Stored(place) if look is Stored.fix else place)

    s3fs.S3FileSystem.clear_instance_cache()


def test_a_bucket_that_is_not_there_is_named(server: str) -> None:
    path = "s3://no-such-bucket/lake/silver/sales"

    with pytest.raises(LakeError, match="no-such-bucket"):
        ensure_table(path, APP, (("_batch", "long"), ("dt", "date")), ("dt",))


def _rows(uri: str) -> pq.FileMetaData:
    with open_file(uri) as stream:
        return pq.read_metadata(stream)


def put(path: str, content: bytes) -> None:
    store, inside = open_store(path)
    with store.open(inside, "wb") as stream:
        stream.write(content)


def test_a_source_of_files_is_fixed_with_the_stores_tags(bucket: str) -> None:
    folder = f"{bucket}/feed"
    put(f"{folder}/1.json", b'{"id": 1}\n')
    put(f"{folder}/_temporary/2.json", b'{"id": 2}\n')

    fixed = fixed_at(folder)

    assert (fixed.format, [file.path for file in fixed.files]) == ("json", ["1.json"])
    assert fixed.tagged(fixed.files[0]).tag == fixed.files[0].tag != ""
    assert (fixed.size(), fixed.missing_or_changed()) == (10, [])
    put(f"{folder}/1.json", b'{"id": 9}\n')
    assert fixed.missing_or_changed() == list(fixed.files)


@either_name
def test_a_single_file_and_a_delta_table_are_reported_apart(bucket: str) -> None:
    put(f"{bucket}/one.csv", b"id\n1\n")
    write_deltalake(f"{bucket}/table", pa.table({"id": [1]}))
    write_deltalake(f"{bucket}/table", pa.table({"id": [2]}), mode="append")

    file, table = fixed_at(f"{bucket}/one.csv"), fixed_at(f"{bucket}/table")

    assert (file.format, [f.path for f in file.files]) == ("csv", ["one.csv"])
    assert (type(table), table.version) == (FixedDelta, 1)
    news = delta_files_since(f"{bucket}/table", 0, 1)
    assert (news.complete, len(news.files)) == (True, 1)


def test_a_source_that_is_not_there_is_reported(bucket: str) -> None:
    with pytest.raises(SourceError, match="There is nothing at"):
        Stored(f"{bucket}/nowhere").fix()


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
