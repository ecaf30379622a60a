"""Reading a version: just its files, just the ones that are asked for, in the log's columns."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable

from incremental_assets.delta.delta_table import add_columns
from incremental_assets.delta.read import DataFile, data_files, plain_files, read_version
from incremental_assets.errors import LakeError
from incremental_assets_tests.delta.conftest import JAN_1, JAN_2, Small


def found(small: Small, version: int, **options: object) -> list[tuple[object, ...]]:
    frame = read_version(small.session, small.path, version, **options)  # type: ignore[arg-type]
    return sorted(tuple(row) for row in frame.select("id", "dt", "amount").collect())


def test_a_version_holds_what_was_published_by_then(small: Small) -> None:
    small.append(1, ("a", JAN_1, 1))
    first = DeltaTable(small.path).version()
    small.append(2, ("b", JAN_2, 2))

    assert found(small, first) == [("a", JAN_1, 1)]
    assert found(small, first + 1) == [("a", JAN_1, 1), ("b", JAN_2, 2)]


def test_an_empty_version_has_the_columns_of_the_log(small: Small) -> None:
    frame = read_version(small.session, small.path, 0)

    assert frame.columns == ["_batch", "dt"]
    assert frame.count() == 0


def test_files_of_other_days_and_batches_are_not_read(small: Small) -> None:
    small.append(1, ("a", JAN_1, 1), ("b", JAN_2, 2))
    small.append(2, ("c", JAN_1, 3))
    version = DeltaTable(small.path).version()

    def new_ones(file: DataFile) -> bool:
        return file.partition["dt"] == JAN_1 and file.may_hold_batches(1, 2)

    assert found(small, version, keep=new_ones) == [("c", JAN_1, 3)]


def test_a_path_with_signs_that_mean_something_elsewhere(small: Small, tmp_path: object) -> None:
    odd = Small(small.session, f"{tmp_path}/a lake {{x}} [1]* 100% +/dt=2016-01-01/silver/sales")
    odd.append(1, ("a", JAN_1, 1), ("b", JAN_2, 2))

    assert found(odd, DeltaTable(odd.path).version()) == [("a", JAN_1, 1), ("b", JAN_2, 2)]


def test_a_table_with_deletion_vectors_is_read_by_delta_and_not_rewritten(small: Small) -> None:
    small.append(1, ("a", JAN_1, 1), ("b", JAN_1, 2))
    table = f"delta.`{small.path}`"
    small.session.sql(
        f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    small.session.sql(f"DELETE FROM {table} WHERE id = 'a'")
    version = DeltaTable(small.path).version()

    assert found(small, version) == [("b", JAN_1, 2)]
    with pytest.raises(LakeError, match=r"uses deletionVectors, so its files cannot be rewritten"):
        plain_files(small.path, version)


def test_rows_deleted_and_files_compacted_by_delta_itself_are_read_as_they_are(
    small: Small,
) -> None:
    small.append(1, ("a", JAN_1, 1), ("b", JAN_1, 2))
    small.append(2, ("c", JAN_1, 3))

    small.session.sql(f"DELETE FROM delta.`{small.path}` WHERE id = 'a'")
    assert found(small, DeltaTable(small.path).version()) == [("b", JAN_1, 2), ("c", JAN_1, 3)]
    small.session.sql(f"OPTIMIZE delta.`{small.path}`").collect()
    assert found(small, DeltaTable(small.path).version()) == [("b", JAN_1, 2), ("c", JAN_1, 3)]


def test_a_version_that_is_not_there_says_so(small: Small) -> None:
    with pytest.raises(LakeError, match="cannot be read at version 7"):
        read_version(small.session, small.path, 7)


def appended(path: Path, **columns: list[int | None]) -> None:
    frame = pl.DataFrame(columns, schema_overrides=dict.fromkeys(columns, pl.Int64))
    frame.write_delta(path, mode="append")


@pytest.mark.parametrize(
    ("batches", "may_be"),
    [
        pytest.param([1, 2], False, id="each row has one"),
        pytest.param([1, None], True, id="one row has none"),
        pytest.param([None, None], True, id="none has one"),
    ],
)
def test_a_file_may_be_of_others_where_the_log_counts_rows_without_a_batch(
    tmp_path: Path, batches: list[int | None], may_be: bool
) -> None:
    appended(tmp_path, id=[1, 2], _batch=batches)

    (file,) = data_files(str(tmp_path), 0)

    assert file.may_be_of_others is may_be


def test_a_file_may_be_of_others_where_the_log_does_not_count_them(tmp_path: Path) -> None:
    rows = pl.DataFrame({"id": [1], "_batch": [1]})
    unindexed = {"configuration": {"delta.dataSkippingNumIndexedCols": "1"}}
    rows.write_delta(tmp_path, delta_write_options=unindexed)

    (file,) = data_files(str(tmp_path), 0)

    assert (file.without_batch, file.may_be_of_others) == (None, True)


def test_a_file_without_the_column_may_be_of_others_also_where_the_table_got_it_later(
    tmp_path: Path,
) -> None:
    appended(tmp_path, id=[1])
    before = data_files(str(tmp_path), 0)
    add_columns(
        str(tmp_path), [{"name": "_batch", "type": "long", "nullable": True, "metadata": {}}]
    )
    appended(tmp_path, id=[2], _batch=[1])
    after = data_files(str(tmp_path), 2)

    assert [file.may_be_of_others for file in before] == [True]
    assert sorted(file.may_be_of_others for file in after) == [False, True]
