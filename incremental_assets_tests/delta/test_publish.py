"""Staged files: seen by nobody before they are published, and then by everybody at once."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path

import polars as pl
import pytest
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import RemoveAction
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from incremental_assets.delta.delta_log import put_fence
from incremental_assets.delta.delta_table import ensure_table
from incremental_assets.delta.publish import publish
from incremental_assets.delta.read import plain_files, read_version
from incremental_assets.delta.stage import discard, discard_batch, stage
from incremental_assets.errors import ConflictError, DefinitionError, LakeError
from incremental_assets.storage import files_below
from incremental_assets_tests.delta.conftest import APP, JAN_1, JAN_2, Small, give_feature
from incremental_assets_tests.thorough import thorough


def test_staged_rows_are_counted_by_day_and_seen_by_nobody(small: Small) -> None:
    rows = small.frame(1, ("a", JAN_1, 1), ("b", JAN_1, 2), ("c", JAN_2, 3))

    staged = stage(rows, small.path, small.folder(1), ("dt",))

    assert staged.rows == {(JAN_1,): 2, (JAN_2,): 1}
    assert DeltaTable(small.path).version() == 0


def test_published_rows_are_read_by_delta_polars_and_delta_rs_alike(small: Small) -> None:
    small.append(1, ("a", JAN_1, 1), ("b", JAN_2, 2))

    assert small.rows() == [("a", "2017-01-01", 1), ("b", "2017-01-02", 2)]
    frame = pl.read_delta(small.path)
    assert sorted(frame.select("id", "amount").rows()) == [("a", 1), ("b", 2)]
    assert DeltaTable(small.path).count() == 2


def test_only_the_days_that_passed_are_published(small: Small) -> None:
    staged = stage(
        small.frame(1, ("a", JAN_1, 1), ("b", JAN_2, 2)), small.path, small.folder(1), ("dt",)
    )
    good = staged.only("dt", {JAN_1})

    publish(good, small.transaction(1))
    discard(staged.without(good))

    assert small.rows() == [("a", "2017-01-01", 1)]
    left = [f for f in files_below(small.path) if f.path.endswith(".parquet")]
    assert [f.path for f in left] == [good.files[0].path]


def test_a_day_is_replaced_whole_and_no_other(small: Small) -> None:
    small.append(1, ("a", JAN_1, 1), ("b", JAN_2, 2))
    small.append(2, ("c", JAN_1, 3))

    staged = stage(small.frame(3, ("d", JAN_1, 4)), small.path, small.folder(3), ("dt",))
    publish(staged, small.transaction(3), replaced_days=[JAN_1])

    assert small.rows() == [("b", "2017-01-02", 2), ("d", "2017-01-01", 4)]


def test_a_number_is_published_once(small: Small) -> None:
    staged = stage(small.frame(1, ("a", JAN_1, 1)), small.path, small.folder(1), ("dt",))
    publish(staged, small.transaction(1))

    with pytest.raises(ConflictError, match="batch 1 was abandoned"):
        publish(staged, small.transaction(1))

    assert small.rows() == [("a", "2017-01-01", 1)]


def test_a_commit_of_somebody_else_in_between_is_no_obstacle(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = stage(small.frame(1, ("a", JAN_1, 1)), small.path, small.folder(1), ("dt",))
    publish(staged, small.transaction(1))
    later = stage(small.frame(2, ("b", JAN_1, 2)), small.path, small.folder(2), ("dt",))
    opened: list[int] = []

    class Raced(DeltaTable):
        """Somebody commits after this one has been opened, once."""

        def __init__(self, path: str) -> None:
            super().__init__(path)
            if not opened:
                opened.append(self.version())
                put_fence(path, "somebody else", 1)

    monkeypatch.setattr("incremental_assets.delta.publish.DeltaTable", Raced)
    publish(later, small.transaction(2))

    assert small.rows() == [("a", "2017-01-01", 1), ("b", "2017-01-01", 2)]
    assert DeltaTable(small.path).version() == opened[0] + 2


def test_a_file_that_somebody_else_replaced_is_not_replaced_again(small: Small) -> None:
    small.append(1, ("a", JAN_1, 1))
    table = DeltaTable(small.path)
    (old,) = [uri.split("sales/", 1)[1] for uri in table.file_uris()]
    table.create_write_transaction(
        [RemoveAction(old, True, 0)],
        "append",
        table.schema(),
        ["dt"],
        commit_properties=CommitProperties(),
    )
    staged = stage(small.frame(2, ("a", JAN_1, 2)), small.path, small.folder(2), ("dt",))

    with pytest.raises(ConflictError, match=r"was replaced by another program"):
        publish(staged, small.transaction(2), replaced_files=[old])


def test_a_new_column_is_added_and_null_in_what_was_there(small: Small) -> None:
    small.append(1, ("a", JAN_1, 1))
    grown = small.frame(2, ("b", JAN_1, 2)).withColumn("colour", F.lit("red"))

    publish(stage(grown, small.path, small.folder(2), ("dt",)), small.transaction(2))

    by_delta = small.session.read.format("delta").load(small.path)
    version = DeltaTable(small.path).version()
    for table in (by_delta, read_version(small.session, small.path, version)):
        rows = sorted(map(tuple, table.select("id", "colour").collect()))
        assert rows == [("a", None), ("b", "red")]


def test_a_column_of_another_type_is_refused_and_nothing_is_published(small: Small) -> None:
    small.append(1, ("a", JAN_1, 1))
    other = small.frame(2, ("b", JAN_1, 2)).withColumn("amount", F.col("amount").cast("string"))
    staged = stage(other, small.path, small.folder(2), ("dt",))

    with pytest.raises(DefinitionError, match=r"column amount is integer in the table and string"):
        publish(staged, small.transaction(2))

    assert small.rows() == [("a", "2017-01-01", 1)]


def test_what_an_abandoned_batch_staged_is_removed_and_never_a_file_that_the_log_holds(
    small: Small,
) -> None:
    small.append(1, ("a", JAN_1, 1))
    stage(small.frame(2, ("b", JAN_1, 2)), small.path, small.folder(2), ("dt",))

    for batch in (1, 2):
        discard_batch(small.path, APP, batch)

    assert small.rows() == [("a", "2017-01-01", 1)]
    left = [f for f in files_below(small.path) if f.path.endswith(".parquet")]
    assert len(left) == 1


def test_statistics_bound_what_is_in_the_file(small: Small) -> None:
    rows = small.frame(7, ("a", JAN_1, 3), ("c", JAN_1, None)).withColumns(
        {
            "at": F.lit("2017-01-01T10:00:00.123456Z").cast("timestamp"),
            "price": F.lit("2.5").cast("decimal(18,4)"),
            "long_text": F.lit("x" * 33),
            "part": F.lit(0.5),
            "nested": F.struct(F.lit(1).alias("inner")),
        }
    )

    (file,) = stage(rows, small.path, small.folder(7), ("dt",)).files

    found = json.loads(file.statistics)
    assert found["numRecords"] == 2
    assert found["minValues"] == {
        "_batch": 7,
        "id": "a",
        "amount": 3,
        "at": "2017-01-01T10:00:00.123Z",
        "price": 2.5,
    }
    assert found["maxValues"] == {
        **found["minValues"],
        "id": "c",
        "at": "2017-01-01T10:00:00.124Z",
    }
    assert found["nullCount"]["amount"] == 1


@pytest.mark.parametrize(
    "at",
    [
        pytest.param(
            "9999-12-31T23:59:59.999999Z",
            marks=thorough("delta/test_publish.py: one that is later in UTC"),
        ),
        "9999-12-31T23:00:00-05:00",
    ],
)
def test_an_instant_beyond_python_is_published_without_bounds(small: Small, at: str) -> None:
    rows = small.frame(1, ("a", JAN_1, 1)).withColumn("at", F.lit(at).cast("timestamp"))
    staged = stage(rows, small.path, small.folder(1), ("dt",))

    publish(staged, small.transaction(1))

    assert "at" not in json.loads(staged.files[0].statistics)["minValues"]
    assert small.rows() == [("a", "2017-01-01", 1)]


def test_an_early_year_has_four_digits(small: Small) -> None:
    at = F.lit("0001-02-03T04:05:06Z").cast("timestamp")

    (file,) = stage(
        small.frame(1, ("a", JAN_1, 1)).withColumn("at", at), small.path, small.folder(1), ("dt",)
    ).files

    assert json.loads(file.statistics)["minValues"]["at"] == "0001-02-03T04:05:06.000Z"


def test_delta_skips_by_the_statistics_and_finds_what_it_asks_for(small: Small) -> None:
    at = F.lit("2017-01-01T10:00:00.123456Z").cast("timestamp")
    price = F.lit("12345678901234.5678").cast("decimal(18,4)")
    frame = small.frame(1, ("a", JAN_1, 1)).withColumns({"at": at, "price": price})
    publish(stage(frame, small.path, small.folder(1), ("dt",)), small.transaction(1))

    table = small.session.read.format("delta").load(small.path)
    for condition in ("at = TIMESTAMP'2017-01-01T10:00:00.123456Z'", "price > 12345678901234.5677"):
        assert table.where(condition).count() == 1
    assert table.where("_batch > 1").count() == 0


def test_a_table_goes_on_after_a_checkpoint_of_its_log(small: Small) -> None:
    DeltaTable(small.path).alter.set_table_properties({"delta.checkpointInterval": "2"})
    for batch in range(1, 4):
        small.append(batch, (f"row {batch}", date(2017, 1, batch), batch))

    log = Path(small.path) / "_delta_log"
    assert [f for f in log.iterdir() if "checkpoint" in f.name]
    assert len(small.rows()) == 3
    assert DeltaTable(small.path).transaction_version(APP) == 3


@pytest.mark.parametrize(
    "value",
    [pytest.param("true", marks=thorough("delta/test_publish.py: in capitals")), "TRUE"],
)
def test_a_table_with_a_change_data_feed_is_refused_with_what_to_do(
    small: Small, value: str
) -> None:
    staged = stage(small.frame(1, ("a", JAN_1, 1)), small.path, 1, ("dt",))
    feed = {"delta.enableChangeDataFeed": value}
    DeltaTable(small.path).alter.set_table_properties(feed)

    remedy = re.escape(f"ALTER TABLE delta.`{small.path}` SET TBLPROPERTIES")
    with pytest.raises(LakeError, match=remedy):
        publish(staged, small.transaction(1))
    with pytest.raises(LakeError, match="change data feed"):  # also before anything is claimed
        ensure_table(small.path, APP, (), ())

    assert DeltaTable(small.path).file_uris() == []
    sql = f"ALTER TABLE delta.`{small.path}` SET TBLPROPERTIES (delta.enableChangeDataFeed = false)"
    small.session.sql(sql)
    publish(staged, small.transaction(1))
    assert small.rows() == [("a", "2017-01-01", 1)]


def test_what_a_commit_of_plain_files_would_break_is_refused(small: Small, tmp_path: Path) -> None:
    small.append(1, ("a", JAN_1, 1), ("gone", JAN_1, 1))
    table = f"delta.`{small.path}`"
    small.session.sql(
        f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    small.session.sql(f"DELETE FROM {table} WHERE id = 'gone'")
    staged = stage(small.frame(2, ("b", JAN_1, 2)), small.path, small.folder(2), ("dt",))
    with pytest.raises(LakeError, match=r"uses deletion vectors") as refused:
        publish(staged, small.transaction(2), replaced_days=[JAN_1])
    publish(staged, small.transaction(2))  # which removes nothing
    assert small.rows() == [("a", "2017-01-01", 1), ("b", "2017-01-01", 2)]
    do_as_told(small.session, refused.value)
    version = DeltaTable(small.path).version()
    kept = {Path(file.path).name for file in plain_files(small.path, version).files}
    assert kept == {Path(uri).name for uri in DeltaTable(small.path).file_uris()}
    staged = stage(small.frame(3, ("c", JAN_1, 3)), small.path, small.folder(3), ("dt",))
    publish(staged, small.transaction(3), replaced_days=[JAN_1])
    assert small.rows() == [("c", "2017-01-01", 3)]

    checked = Small(small.session, f"{tmp_path}/checked")
    checked.append(1, ("a", JAN_1, 1))
    DeltaTable(checked.path).alter.add_constraint({"positive": "amount > 0"})
    with pytest.raises(LakeError, match=r"delta\.constraints\.positive.*checks no constraint"):
        checked.append(2, ("b", JAN_1, -2))

    renamed = Small(small.session, f"{tmp_path}/renamed")
    renamed.append(1, ("a", JAN_1, 1))
    mapping = "'delta.columnMapping.mode' = 'name'"
    small.session.sql(f"ALTER TABLE delta.`{renamed.path}` SET TBLPROPERTIES ({mapping})")
    with pytest.raises(LakeError, match="column mapping switched on") as refused:
        renamed.append(2, ("b", JAN_1, 2))
    do_as_told(small.session, refused.value)
    staged = stage(renamed.frame(2, ("b", JAN_1, 2)), renamed.path, renamed.folder(2), ("dt",))
    publish(staged, renamed.transaction(2), replaced_days=[JAN_1])
    version = DeltaTable(renamed.path).version()
    assert len(plain_files(renamed.path, version).files) == 1
    assert renamed.rows() == [("b", "2017-01-01", 2)]


def do_as_told(session: SparkSession, refusal: LakeError) -> None:
    for statement in str(refusal).partition("run again: ")[2].split("; "):
        session.sql(statement).collect()


@pytest.mark.parametrize(
    ("feature", "properties", "remedy"),
    [
        ("checkpointProtection", {}, r"remove the table's folder.*ledger rebuild TABLE"),
        ("rowTracking", {}, r"remove the table's folder.*ledger rebuild TABLE"),
        ("appendOnly", {"delta.appendOnly": "true"}, r"delta\.appendOnly = false"),
    ],
)
def test_a_table_that_delta_rs_cannot_write_is_refused_before_a_load_begins(
    tmp_path: Path, feature: str, properties: dict[str, str], remedy: str
) -> None:
    path = f"{tmp_path}/table"
    ensure_table(path, APP, (("id", "string"),), ())
    give_feature(path, feature, properties)

    with pytest.raises(LakeError, match=f"{feature}.*Nothing was published.*{remedy}"):
        ensure_table(path, APP, (), ())


def test_a_checkpoint_that_cannot_be_written_does_not_make_a_published_batch_fail(
    small: Small,
) -> None:
    DeltaTable(small.path).alter.set_table_properties({"delta.checkpointInterval": "1"})
    hint = Path(small.path) / "_delta_log" / "_last_checkpoint"
    hint.unlink(missing_ok=True)
    (hint / "in the way").mkdir(parents=True)

    small.append(1, ("a", JAN_1, 1))

    assert small.rows() == [("a", "2017-01-01", 1)]


def test_no_null_is_published_into_a_column_that_is_not_null(small: Small, tmp_path: Path) -> None:
    path = f"{tmp_path}/whole"
    columns = "id STRING NOT NULL, amount INT, _batch LONG, dt DATE"
    small.session.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta PARTITIONED BY (dt)")
    whole = Small(small.session, path)
    whole.append(1, ("a", JAN_1, None))
    with pytest.raises(LakeError, match="id is NOT NULL in the table, and 1 of the rows"):
        whole.append(2, ("b", JAN_1, 2), (None, JAN_1, 3))

    assert [row[0] for row in whole.rows()] == ["a"]
