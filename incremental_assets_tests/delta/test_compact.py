"""Small files become one: rows, bounds and types stay, and whoever writes meanwhile comes first."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F

from incremental_assets.delta.compact import (
    CompactionGroup,
    CompactionLimits,
    commit_compaction,
    compaction_groups,
    discard_uncommitted,
    stage_compaction,
)
from incremental_assets.delta.delta_log import find_commit
from incremental_assets.delta.delta_table import ensure_table
from incremental_assets.delta.publish import publish
from incremental_assets.delta.read import TableFiles, plain_files, read_version
from incremental_assets.delta.stage import Staged, stage
from incremental_assets.errors import LakeError
from incremental_assets.storage import files_below
from incremental_assets_tests.delta.conftest import APP, JAN_1, JAN_2, Small

FEW = CompactionLimits(min_files=2)


def files_of(small: Small) -> TableFiles:
    return plain_files(small.path, DeltaTable(small.path).version())


def staged_of(
    small: Small, limits: CompactionLimits = FEW
) -> tuple[Staged, Sequence[CompactionGroup]]:
    table = files_of(small)
    groups = compaction_groups(table, limits)
    return stage_compaction(small.session, table, groups), groups


def actions(small: Small) -> list[dict[str, dict[str, object]]]:
    version = DeltaTable(small.path).version()
    log = Path(small.path) / "_delta_log" / f"{version:020d}.json"
    return [json.loads(line) for line in log.read_text().splitlines()]


def parquet(small: Small) -> set[str]:
    return {f.path for f in files_below(small.path) if f.path.endswith(".parquet")}


def test_small_files_of_a_day_become_one_with_the_bounds_of_all_its_batches(small: Small) -> None:
    for batch in range(1, 4):
        small.append(batch, (f"a{batch}", JAN_1, batch))
    small.append(4, ("b", JAN_2, 4))
    before = small.rows()
    (alone,) = [f for f in files_of(small).files if f.partition["dt"] == JAN_2]

    staged, groups = staged_of(small)
    done = commit_compaction(staged, groups)

    assert done == groups
    assert small.rows() == before
    table = files_of(small)
    (compacted,) = [f for f in table.files if f.partition["dt"] == JAN_1]
    assert (compacted.first_batch, compacted.last_batch, compacted.rows) == (1, 3, 3)
    assert not compacted.may_hold_batches(3, 9)
    assert alone in table.files
    kinds = [
        (kind, action["dataChange"])
        for each in actions(small)
        for kind, action in each.items()
        if kind in ("add", "remove")
    ]
    assert sorted(kinds) == [("add", False)] + [("remove", False)] * 3
    assert compaction_groups(table, FEW) == []
    assert find_commit(small.path, APP, 4) is not None
    assert DeltaTable(small.path).transaction_version(APP) == 4


def test_fewer_files_than_it_takes_large_ones_and_single_ones_are_left_alone(small: Small) -> None:
    for batch in range(1, 4):
        small.append(batch, (f"a{batch}", JAN_1, batch))
    table = files_of(small)
    sizes = sorted(f.size for f in table.files)

    assert compaction_groups(table, CompactionLimits(min_files=4)) == []
    assert compaction_groups(table, CompactionLimits(small=sizes[0], min_files=1)) == []
    assert compaction_groups(table, CompactionLimits(target=1, min_files=1)) == []
    assert compaction_groups(table, FEW, lambda file: file.partition["dt"] == JAN_2) == []


def test_much_is_compacted_into_several_files_of_neighbouring_batches(small: Small) -> None:
    for batch in range(1, 6):
        small.append(batch, (f"a{batch}", JAN_1, batch))
    two = 2 * max(f.size for f in files_of(small).files)

    staged, groups = staged_of(small, CompactionLimits(target=two, min_files=2))
    commit_compaction(staged, groups)

    found = sorted((f.first_batch, f.last_batch) for f in files_of(small).files)
    assert found == [(1, 2), (3, 4), (5, 5)]
    assert [id_ for id_, _, _ in small.rows()] == ["a1", "a2", "a3", "a4", "a5"]


def test_a_load_that_replaced_such_a_file_meanwhile_wins_its_day_and_no_other(small: Small) -> None:
    for batch in range(1, 3):
        small.append(batch, (f"a{batch}", JAN_1, batch), (f"b{batch}", JAN_2, batch))
    staged, groups = staged_of(small)
    rewritten = stage(small.frame(3, ("new", JAN_1, 3)), small.path, small.folder(3), ("dt",))
    publish(rewritten, small.transaction(3), replaced_days=[JAN_1])

    done = commit_compaction(staged, groups)
    discard_uncommitted(staged, done)

    assert [group.partition for group in done] == [("2017-01-02",)]
    assert small.rows() == [
        ("b1", "2017-01-02", 1),
        ("b2", "2017-01-02", 2),
        ("new", "2017-01-01", 3),
    ]
    days = [f.partition["dt"] for f in files_of(small).files]
    assert sorted(days) == [JAN_1, JAN_2]
    there = {f.path for f in staged.files} & parquet(small)
    assert len(there) == 1  # what came too late is gone


def test_a_commit_in_between_that_touches_no_such_file_is_no_obstacle(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.append(1, ("a", JAN_1, 1))
    small.append(2, ("b", JAN_1, 2))
    staged, groups = staged_of(small)
    interrupted: list[int] = []

    def committing(table: DeltaTable) -> set[str]:
        if not interrupted:
            interrupted.append(3)
            small.append(3, ("c", JAN_1, 3))
        return {f.path for f in plain_files(small.path, table.version()).files}

    monkeypatch.setattr("incremental_assets.delta.compact.active_paths", committing)
    commit_compaction(staged, groups)

    assert [id_ for id_, _, _ in small.rows()] == ["a", "b", "c"]
    assert len(files_of(small).files) == 2


def test_a_partition_without_a_value_and_a_table_without_partitions_are_compacted_too(
    small: Small,
) -> None:
    path = f"{small.path}_beside"
    ensure_table(path, APP, (("_batch", "long"),), ())
    for batch in (1, 2):
        small.append(batch, ("a", None, batch))
        rows = small.frame(batch, ("a", JAN_1, batch))
        publish(stage(rows, path, batch, ()), small.transaction(batch))
    side_table = plain_files(path, DeltaTable(path).version())

    staged, groups = staged_of(small)
    commit_compaction(staged, groups)
    others = compaction_groups(side_table, FEW)
    commit_compaction(stage_compaction(small.session, side_table, others), others)

    assert [f.partition for f in files_of(small).files] == [{"dt": None}]
    assert small.session.read.format("delta").load(small.path).where("dt IS NULL").count() == 2
    assert len(plain_files(path, DeltaTable(path).version()).files) == 1
    assert small.session.read.format("delta").load(path).count() == 2


def test_variants_of_every_kind_and_columns_that_were_added_later_are_carried_forward(
    small: Small,
) -> None:
    for batch in (1, 2):
        rows = small.frame(batch, (f"a{batch}", JAN_1, batch))
        texts = F.lit('{"a": [1, 2.50, "x", null], "b": {"c": true}}' if batch == 1 else "7")
        rows = rows.withColumn("payload", F.parse_json(texts))
        if batch == 2:
            rows = rows.withColumn("later", F.lit("x"))
        publish(stage(rows, small.path, small.folder(batch), ("dt",)), small.transaction(batch))

    def texts_of(version: int) -> list[tuple[object, ...]]:
        rows = read_version(small.session, small.path, version)
        found = rows.select("id", F.to_json("payload"), "later").collect()
        return sorted(tuple(row) for row in found)

    before = texts_of(DeltaTable(small.path).version())
    staged, groups = staged_of(small)
    commit_compaction(staged, groups)

    assert texts_of(DeltaTable(small.path).version()) == before
    rows = small.session.read.format("delta").load(small.path)
    assert rows.select("id", F.to_json("payload"), "later").count() == 2
    (file,) = files_of(small).files
    footer = pa.parquet.read_schema(f"{small.path}/{file.path}")
    assert [field.name for field in footer.field("payload").type] == ["value", "metadata"]


def test_rows_that_the_log_does_not_tell_of_stop_the_compaction(small: Small) -> None:
    small.append(1, ("a", JAN_1, 1))
    small.append(2, ("b", JAN_1, 2))
    table = files_of(small)
    (group,) = compaction_groups(table, FEW)
    more = CompactionGroup(group.partition, tuple(replace(file, rows=2) for file in group.files))
    before = parquet(small)

    with pytest.raises(LakeError, match="4 rows became 2 when their files were compacted"):
        stage_compaction(small.session, table, [more])

    assert parquet(small) == before
