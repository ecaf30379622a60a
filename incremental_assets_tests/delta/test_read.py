"""Reading a version: just its files, just the ones that are asked for, in the log's columns."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from incremental_assets.delta.read import DataFile, plain_files, read_version
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
