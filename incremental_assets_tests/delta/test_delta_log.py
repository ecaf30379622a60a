"""A table's log: made before anything is written, fenced, and asked what a commit did."""

from __future__ import annotations

import json
import time
from datetime import date
from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable
from deltalake import Transaction as TransactionOf
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.delta import delta_log
from incremental_assets.delta.delta_log import (
    ensure_number,
    find_commit,
    partition_day,
    put_fence,
    transaction,
)
from incremental_assets.delta.delta_table import columns_of, ensure_table, open_table, version_of
from incremental_assets.delta.publish import publish
from incremental_assets.delta.stage import folder_of, stage
from incremental_assets.delta.transaction import Transaction
from incremental_assets.errors import ConflictError, LakeError
from incremental_assets_tests.delta.conftest import give_feature

APP = "bronze/events"
COLUMNS = (("_batch", "long"), ("dt", "date"), ("id", "string"), ("payload", "variant"))
JAN_1, JAN_2 = date(2017, 1, 1), date(2017, 1, 2)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """An empty table with a VARIANT column, by day."""
    path = str(tmp_path / "bronze" / "events")
    ensure_table(path, APP, COLUMNS, ("dt",))
    return path


def rows(spark: SparkSession, batch: int, *ids_and_days: tuple[str, date | None]) -> DataFrame:
    frame = spark.createDataFrame(list(ids_and_days), "id string, dt date")
    payload = F.parse_json(F.lit('{"a":1}'))
    batch_column = F.lit(batch).cast("long")
    return frame.select(
        batch_column.alias("_batch"), "dt", "id", payload.alias("payload")
    ).coalesce(1)


def by_batch(number: int, note: str = "{}") -> Transaction:
    return Transaction(APP, number, note)


def append(frame: DataFrame, path: str, batch: int, note: str = "{}") -> None:
    publish(stage(frame, path, folder_of(APP, batch), ("dt",)), by_batch(batch, note))


def ids(spark: SparkSession, path: str) -> list[str]:
    return sorted(row["id"] for row in spark.read.format("delta").load(path).collect())


def test_a_table_that_is_not_there_is_none_and_has_no_columns(tmp_path: Path) -> None:
    path = str(tmp_path / "silver" / "sales")

    assert open_table(path) is None
    assert columns_of(path) == []
    assert transaction(path, APP) == 0


def test_the_version_of_a_table_that_is_not_there_is_an_error_with_the_remedy(
    tmp_path: Path,
) -> None:
    with pytest.raises(LakeError, match=r"silver/sales should hold a Delta table.*restore it"):
        version_of(str(tmp_path / "silver/sales"))


def test_a_table_is_made_with_its_columns_and_partitions(path: str) -> None:
    table = DeltaTable(path)

    assert version_of(path) == 0
    assert columns_of(path) == ["_batch", "dt", "id", "payload"]
    assert table.metadata().partition_columns == ["dt"]
    assert table.metadata().name == APP
    assert table.metadata().configuration["delta.enableDeletionVectors"] == "false"


def test_a_table_that_is_there_is_left_as_it_is(path: str) -> None:
    ensure_table(path, "another", (("other", "string"),), ())

    assert version_of(path) == 0
    assert columns_of(path) == ["_batch", "dt", "id", "payload"]


def test_a_path_that_cannot_be_written_names_itself_and_the_variable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    path = str(tmp_path / "file" / "sales")

    with pytest.raises(
        LakeError,
        match=r"not writable: .*file/sales cannot be created.*Set INCREMENTAL_ASSETS_LAKE",
    ):
        ensure_table(path, "sales", COLUMNS, ("dt",))


def test_a_log_that_is_broken_cannot_be_read_and_says_where(path: str) -> None:
    (Path(path) / "_delta_log" / f"{1:020d}.json").write_text("{broken")

    with pytest.raises(LakeError, match="bronze/events cannot be read"):
        version_of(path)


def test_after_a_fence_a_late_append_of_its_batch_is_refused(
    spark: SparkSession, path: str
) -> None:
    assert put_fence(path, APP, 1)
    with pytest.raises(ConflictError, match=r"batch 1 was abandoned by another run"):
        append(rows(spark, 1, ("too late", JAN_1)), path, 1)
    append(rows(spark, 2, ("a", JAN_1)), path, 2)

    (row,) = spark.read.format("delta").load(path).selectExpr("id", "to_json(payload) j").collect()
    assert (row["id"], row["j"]) == ("a", '{"a":1}')
    assert transaction(path, APP) == 2
    assert transaction(path, "another app") == 0


def test_a_fence_behind_its_number_is_not_put(path: str) -> None:
    assert put_fence(path, APP, 5)
    version = version_of(path)

    assert not put_fence(path, APP, 5)
    assert not put_fence(path, APP, 4)
    assert (version_of(path), transaction(path, APP)) == (version, 5)


def test_a_fence_that_delta_rs_cannot_write_is_an_error_with_its_remedy(path: str) -> None:
    give_feature(path, "checkpointProtection")

    for fence in (put_fence, ensure_number):
        with pytest.raises(LakeError, match=r"has checkpointProtection.*ledger rebuild TABLE"):
            fence(path, APP, 1)


def test_a_number_is_not_tried_to_be_fenced_for_ever(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)
    monkeypatch.setattr(delta_log, "put_fence", lambda *_: False)

    with pytest.raises(ConflictError, match=r"others kept writing while batch 1"):
        ensure_number(path, APP, 1)


def test_a_fence_is_found_as_the_commit_of_its_batch(path: str) -> None:
    put_fence(path, APP, 1)

    commit = find_commit(path, APP, 1)

    assert commit is not None
    assert commit.note == {"batch": 1, "fence": True}
    assert (commit.added, commit.touched) == ({}, frozenset())


@pytest.fixture(scope="module")
def two_batches(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Batch 1 added rows to two days and to none; batch 2 replaced one day and emptied it."""
    path = str(tmp_path_factory.mktemp("lake") / "events")
    ensure_table(path, APP, COLUMNS, ("dt",))
    added = rows(spark, 1, ("a", JAN_1), ("b", JAN_2), ("c", JAN_2), ("d", None))
    append(added, path, 1, '{"batch":1,"days":{}}')
    nothing = stage(rows(spark, 2, ("x", JAN_1)).where("false"), path, folder_of(APP, 2), ("dt",))
    publish(nothing, by_batch(2), replaced_days=[JAN_2])
    put_fence(path, "another app", 1)
    return path


def test_a_commit_is_found_by_its_number_with_what_it_did(two_batches: str) -> None:
    commit = find_commit(two_batches, APP, 1)

    assert commit is not None
    assert (commit.version, commit.note) == (1, {"batch": 1, "days": {}})
    assert commit.added == {("2017-01-01",): 1, ("2017-01-02",): 2, (None,): 1}
    assert commit.touched == set(commit.added)


def test_a_partition_of_which_rows_were_only_taken_is_touched_too(
    spark: SparkSession, two_batches: str
) -> None:
    commit = find_commit(two_batches, APP, 2)

    assert commit is not None
    assert (commit.version, commit.added, commit.touched) == (2, {}, {("2017-01-02",)})
    assert ids(spark, two_batches) == ["a", "d"]


def test_a_number_that_was_never_committed_is_not_found(path: str) -> None:
    put_fence(path, APP, 1)
    put_fence(path, APP, 3)

    assert find_commit(path, APP, 2) is None
    assert find_commit(path, APP, 4) is None
    assert find_commit(path, "another app", 1) is None


def test_a_commit_is_looked_for_no_later_than_asked(path: str) -> None:
    put_fence(path, APP, 1)
    put_fence(path, APP, 2)

    assert find_commit(path, APP, 2, newest=1) is None


def test_where_the_log_was_cleaned_up_the_search_ends(path: str) -> None:
    for number in (1, 2):
        put_fence(path, "another app", number)
    (Path(path) / "_delta_log" / f"{1:020d}.json").unlink()

    assert find_commit(path, APP, 1, newest=2) is None


def test_a_note_that_is_not_json_is_empty(path: str) -> None:
    table = DeltaTable(path)
    by_hand = CommitProperties(
        custom_metadata={"userMetadata": "by hand"}, app_transactions=[TransactionOf(APP, 1)]
    )
    table.create_write_transaction([], "append", table.schema(), ["dt"], commit_properties=by_hand)

    commit = find_commit(path, APP, 1)

    assert commit is not None
    assert commit.note == {}


@pytest.mark.parametrize(
    ("value", "day"),
    [(None, None), ("2017-01-02", JAN_2), ("2017%2D01%2D02", JAN_2)],
)
def test_a_partition_value_is_read_as_its_day(value: str | None, day: date | None) -> None:
    assert partition_day(value) == day


def test_a_fence_is_a_commit_of_its_number_alone(path: str) -> None:
    put_fence(path, APP, 1)
    log = Path(path) / "_delta_log" / f"{1:020d}.json"

    actions = [json.loads(line) for line in log.read_text().splitlines()]

    assert [a["txn"]["version"] for a in actions if "txn" in a] == [1]
    assert not [a for a in actions if "add" in a or "remove" in a or "metaData" in a]
