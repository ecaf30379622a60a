"""Merging by key: the greater version stays, and only files with a row that changes are touched."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from incremental_assets.delta import lookup
from incremental_assets.delta.delta_log import find_commit
from incremental_assets.delta.merge import OLD, TO_DELETE, files_named, merge, replace_rows
from incremental_assets.delta.publish import publish
from incremental_assets.delta.read import DataFile
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.errors import LakeError
from incremental_assets.frames import FEW_VALUES, Frames
from incremental_assets_tests.delta.conftest import APP, JAN_1, JAN_2, Small
from incremental_assets_tests.thorough import thorough


@pytest.fixture(
    params=[
        pytest.param(
            "joined as they are",
            marks=thorough("scenarios/test_join.py, delta/test_merge.py: small tables"),
        ),
        "few are sent",
        "too many to send",
    ]
)
def _keys_looked_up(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way of looking keys up, on tables that are too small for the others."""
    if request.param != "joined as they are":
        monkeypatch.setattr(lookup, "LARGE_BYTES", -1)
    if request.param == "too many to send":
        monkeypatch.setattr(lookup, "FEW_KEYS", 0)


def upsert(small: Small, batch: int, *rows: Sequence[object]) -> StagedWrite:
    """Merge by id; the greater amount wins."""
    wins = F.col("amount") > F.col(f"{OLD}.amount")
    merged, _ = merge(
        Frames.over(small.session),
        small.frame(batch, *rows),
        small.path,
        small.folder(batch),
        ["id"],
        wins,
        ["amount"],
    )
    publish(merged.staged, small.transaction(batch), replaced_files=merged.replaced)
    return merged


def files(small: Small) -> set[str]:
    return set(DeltaTable(small.path).file_uris())


def test_a_version_that_loses_changes_no_file_but_its_batch_is_committed(small: Small) -> None:
    small.append(1, ("a", JAN_1, 9))
    before = files(small)

    upsert(small, 2, ("a", JAN_1, 1))

    assert files(small) == before
    assert find_commit(small.path, APP, 2) is not None


@pytest.mark.usefixtures("_keys_looked_up")
def test_only_the_files_with_a_row_that_changes_are_rewritten(small: Small) -> None:
    small.append(1, ("a", JAN_1, 1), ("b", JAN_2, 2))
    small.append(2, ("c", JAN_1, 3))
    before = files(small)

    merged = upsert(small, 3, ("a", JAN_1, 5), ("b", JAN_2, 1), ("d", JAN_1, 4))

    assert (merged.inserted, merged.updated) == ({JAN_1: 1}, {JAN_1: 1})
    assert len(merged.replaced) == 1
    assert len(before & files(small)) == 2
    a_and_b = [("a", "2017-01-01", 5), ("b", "2017-01-02", 2)]
    assert small.rows() == [*a_and_b, ("c", "2017-01-01", 3), ("d", "2017-01-01", 4)]


def test_a_row_moves_to_another_day_in_the_same_commit(small: Small) -> None:
    small.append(1, ("a", JAN_1, 1), ("b", JAN_1, 2))

    upsert(small, 2, ("a", JAN_2, 5))

    assert small.rows() == [("a", "2017-01-02", 5), ("b", "2017-01-01", 2)]
    commit = find_commit(small.path, APP, 2)
    assert commit is not None
    assert commit.touched == {("2017-01-01",), ("2017-01-02",)}


def test_a_row_to_delete_deletes_its_key(small: Small) -> None:
    small.append(1, ("a", JAN_1, 1), ("b", JAN_1, 2))
    deletes = small.frame(2, ("a", JAN_1, 0), ("never there", JAN_1, 0)).withColumn(
        TO_DELETE, F.lit(True)
    )

    merged, _ = merge(
        Frames.over(small.session), deletes, small.path, small.folder(2), ["id"], F.lit(True)
    )
    publish(merged.staged, small.transaction(2), replaced_files=merged.replaced)

    assert small.rows() == [("b", "2017-01-01", 2)]
    assert (merged.inserted, merged.updated, merged.deleted) == ({}, {}, 1)


def test_the_last_row_of_a_table_can_be_deleted(small: Small) -> None:
    small.append(1, ("a", JAN_1, 1))
    deletes = small.frame(2, ("a", JAN_1, 0)).withColumn(TO_DELETE, F.lit(True))

    merged, _ = merge(
        Frames.over(small.session), deletes, small.path, small.folder(2), ["id"], F.lit(True)
    )
    publish(merged.staged, small.transaction(2), replaced_files=merged.replaced)

    assert small.rows() == []


def test_a_merge_into_files_that_delta_wrote_itself(small: Small) -> None:
    small.append(1, ("a", JAN_1, 1))
    frame = small.frame(0, ("b", JAN_1, 2), ("c", JAN_1, 3))
    frame.write.format("delta").mode("append").save(small.path)

    upsert(small, 2, ("b", JAN_1, 5))

    assert small.rows() == [("a", "2017-01-01", 1), ("b", "2017-01-01", 5), ("c", "2017-01-01", 3)]


@pytest.mark.parametrize("statistics", [True, False], ids=["counted in the log", "not counted"])
def test_a_key_that_another_program_wrote_twice_is_replaced_by_one_row(
    small: Small, statistics: bool
) -> None:
    small.append(1, ("a", JAN_1, 1))
    if not statistics:
        small.session.sql(
            f"ALTER TABLE delta.`{small.path}` "
            "SET TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '0')"
        )
    twice = small.frame(0, ("b", JAN_1, 2), ("b", JAN_1, 2))
    twice = twice.withColumn("_batch", F.lit(None).cast("long"))
    twice.write.format("delta").mode("append").save(small.path)

    upsert(small, 2, ("b", JAN_1, 5))

    assert small.rows() == [("a", "2017-01-01", 1), ("b", "2017-01-01", 5)]


def test_a_column_that_only_one_side_has_is_null_on_the_other(small: Small) -> None:
    small.append(1, ("a", JAN_1, 1), ("b", JAN_1, 2))
    grown = small.frame(2, ("a", JAN_1, 5)).withColumn("colour", F.lit("red"))
    wins = F.col("amount") > F.col(f"{OLD}.amount")

    merged, _ = merge(
        Frames.over(small.session), grown, small.path, small.folder(2), ["id"], wins, ["amount"]
    )
    publish(merged.staged, small.transaction(2), replaced_files=merged.replaced)

    table = small.session.read.format("delta").load(small.path)
    rows = sorted(tuple(row) for row in table.select("id", "colour").collect())
    assert rows == [("a", "red"), ("b", None)]


@pytest.mark.parametrize(
    ("repaired", "few"),
    [
        pytest.param([("a", JAN_1, 7)], 0, id="to a row, among many"),
        pytest.param([], FEW_VALUES, id="to nothing, among few"),
        pytest.param(
            [("a", JAN_1, 7)],
            FEW_VALUES,
            id="to a row, among few",
            marks=thorough("delta/test_merge.py: the other two of the four"),
        ),
        pytest.param(
            [],
            0,
            id="to nothing, among many",
            marks=thorough("delta/test_merge.py: the other two of the four"),
        ),
    ],
)
def test_the_rows_of_a_file_are_replaced_and_others_carried_forward(
    small: Small, repaired: list[tuple[object, ...]], few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("incremental_assets.frames.FEW_VALUES", few)
    small.append(1, ("a", JAN_1, 1), ("b", JAN_1, 2), ("c", JAN_2, 3))

    merged, carried = replace_rows(
        Frames.over(small.session),
        small.frame(2, *repaired),
        small.path,
        small.folder(2),
        "id",
        ["a"],
        lambda file: file.partition["dt"] == JAN_1,
    )
    publish(merged.staged, small.transaction(2), replaced_files=merged.replaced)

    kept = [("b", "2017-01-01", 2), ("c", "2017-01-02", 3)]
    assert small.rows() == sorted([(i, str(d), n) for i, d, n in repaired] + kept)
    assert (carried, merged.deleted) == ({(JAN_1,): 1}, 1)


def test_a_file_that_spark_names_otherwise_is_not_kept_with_what_replaces_it() -> None:
    files = [DataFile("dt=1/a b.parquet", {}), DataFile("dt=1/c.parquet", {})]

    assert files_named("/lake/t", files, {"file:///lake/t/dt=1/a%20b.parquet"}) == files[:1]
    with pytest.raises(LakeError, match=r"such as file:///lake//t/dt=1/c\.parquet"):
        files_named("/lake/t", files, {"file:///lake//t/dt=1/c.parquet"})
