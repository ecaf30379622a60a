"""What a stored source finds at a path before Spark reads anything, and what it refuses."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fsspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from incremental_assets.errors import SourceError
from incremental_assets.frames import Frames
from incremental_assets.sources.source import FixedSource
from incremental_assets.sources.stored import FixedFiles
from incremental_assets.sources.stored_delta import FixedDelta
from incremental_assets.sources.stored_files import Format
from incremental_assets_tests.sources.reading import fix, put, read
from incremental_assets_tests.thorough import thorough

NOBODY = 65534


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may read everything, so where the tests run as root they step down."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def bucket() -> Iterator[str]:
    """An object store in memory, with a folder of JSON lines."""
    store = fsspec.filesystem("memory")
    for name in ("b.jsonl", "day=1/a.jsonl", "_SUCCESS", ".hidden.json", "_temporary/c.jsonl"):
        store.pipe_file(f"/bucket/orders/{name}", b'{"a": 1}\n')
    yield "memory://bucket/orders"
    store.rm("/bucket", recursive=True)


def paths(source: FixedSource) -> list[str]:
    return [file.path for file in source.files]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("part-00000-c000.snappy.parquet", "parquet"),
        ("a.pq", "parquet"),
        ("a.json", "json"),
        ("a.jsonl", "json"),
        ("a.NDJSON.GZ", "json"),
        ("a.csv", "csv"),
        ("a.csv.bz2", "csv"),
        ("a.csv.zst", "csv"),
        ("a.b=c {d}.csv", "csv"),
    ],
)
def test_a_files_name_tells_its_format(tmp_path: Path, name: str, expected: Format) -> None:
    put(tmp_path / "source" / name, "x")

    assert fix(tmp_path / "source").format == expected
    assert fix(tmp_path / "source" / name).format == expected


def test_a_folder_of_parts_is_fixed_without_what_is_no_data(tmp_path: Path) -> None:
    data = ("2.json", "a/b/3.json", "day=2017-01-02/1.json", "_day=1/4.json")
    other = ("_SUCCESS", ".1.json.crc", "_temporary/5.json", "a/.tmp/6.json", "7.json._COPYING_")
    for name in (*data, *other):
        put(tmp_path / name, "{}\n")

    assert paths(fix(tmp_path)) == sorted(data)


def test_a_single_file_is_fixed_by_its_name_with_its_size(tmp_path: Path) -> None:
    file = put(tmp_path / "orders of 100%.json", "{}\n")

    source = fix(f"file://{file}")

    assert [(f.path, f.size, f.tag) for f in source.files] == [("orders of 100%.json", 3, "")]
    assert source.files[0].modified == str(file.stat().st_mtime_ns)
    assert source.root == str(tmp_path)


def test_a_relative_path_is_read_wherever_spark_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "orders" / "a.json", "{}\n")
    monkeypatch.chdir(tmp_path)

    assert fix("./orders/").root == str(tmp_path / "orders")


def test_a_local_file_gets_a_tag_of_its_content_when_asked(tmp_path: Path) -> None:
    file = put(tmp_path / "a.json", "{}\n")
    source = fix(tmp_path)
    first = source.tagged(source.files[0])

    put(file, "[]\n")

    second = fix(tmp_path)
    assert first.tag
    assert second.tagged(second.files[0]).tag not in ("", first.tag)


@pytest.mark.parametrize(
    "source_format",
    [
        None,
        "csv",
        pytest.param("json", marks=thorough("sources/test_stored.py: of no format, and CSV")),
        pytest.param("parquet", marks=thorough("sources/test_stored.py: of no format, and CSV")),
    ],
)
def test_an_empty_folder_is_a_source_without_rows(
    tmp_path: Path, spark: SparkSession, source_format: Format | None
) -> None:
    source = fix(tmp_path, source_format)

    assert source == FixedFiles(str(tmp_path), source_format, (), str(tmp_path))
    found = read(spark, source)
    assert (found.own, found.rows) == ({}, [])
    with Frames.over(spark) as frames:
        payloads = source.payloads(frames)
        assert payloads.count() == 0
        assert payloads.columns == ["payload", "_key", "_raw", "_file"]


def test_a_path_where_nothing_is_names_the_path_and_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"nothing at .*nowhere\. .*correct the path"):
        fix(tmp_path / "nowhere")


def test_a_folder_of_several_formats_asks_which_one(tmp_path: Path) -> None:
    put(tmp_path / "a.json", "{}\n")
    put(tmp_path / "b.csv", "a\n1\n")

    with pytest.raises(SourceError, match=r"several formats, such as a.json, b.csv\. Pass source"):
        fix(tmp_path)
    assert paths(fix(tmp_path, "csv")) == ["b.csv"]


def test_names_that_say_nothing_need_a_format(tmp_path: Path) -> None:
    put(tmp_path / "part-00000", "{}\n")
    put(tmp_path / "b.json", "{}\n")

    with pytest.raises(SourceError, match=r"show no format, such as b.json, part-00000"):
        fix(tmp_path)
    assert paths(fix(tmp_path, "json")) == ["b.json", "part-00000"]


def test_a_folder_that_may_not_be_read_says_so() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        closed = put(Path(folder) / "closed" / "a.json", "{}\n").parent
        closed.chmod(0o000)
        try:
            with (
                as_nobody(),
                pytest.raises(SourceError, match=r"closed cannot be read: Permission"),
            ):
                fix(folder)
        finally:
            closed.chmod(0o755)


def test_delta_tables_below_a_folder_are_not_read_as_loose_files(tmp_path: Path) -> None:
    put(tmp_path / "orders" / "_delta_log" / f"{0:020d}.json", "{}\n")
    put(tmp_path / "orders" / "a.parquet", "x")

    with pytest.raises(SourceError, match="folders below it are Delta tables"):
        fix(tmp_path)


def test_a_delta_table_is_not_read_as_another_format(tmp_path: Path) -> None:
    put(tmp_path / "_delta_log" / f"{0:020d}.json", "{}\n")

    with pytest.raises(SourceError, match="is a Delta table; read as parquet"):
        fix(tmp_path, "parquet")


def test_a_folder_without_a_log_is_no_delta_table(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is no Delta table: it has no folder _delta_log"):
        fix(tmp_path, "delta")


def test_a_delta_table_that_delta_rs_would_look_for_elsewhere_is_refused(tmp_path: Path) -> None:
    """It decodes what is percent-encoded in a path; next to it may be another table."""
    for name in ("at=10%3A00", "at=10:00"):
        pl.DataFrame({"a": [name]}).write_delta(str(tmp_path / "table"))
        (tmp_path / "table").rename(tmp_path / name)
    (tmp_path / "link").symlink_to(tmp_path / "at=10%3A00")

    with pytest.raises(SourceError, match=r"delta-rs cannot open one whose path holds '%3A'"):
        fix(tmp_path / "at=10%3A00")
    assert fix(tmp_path / "link").version == 0


def test_a_file_that_spark_would_pass_over_is_refused(tmp_path: Path) -> None:
    file = put(tmp_path / "_export.json", '{"a": 1}\n')

    with pytest.raises(SourceError, match=r"begins with '\.' or '_', or .* Rename it"):
        fix(file)


@pytest.mark.parametrize("ending", ["zip", "xz", "snappy", "lz4", "Z"])
def test_a_compression_that_spark_cannot_read_is_refused(tmp_path: Path, ending: str) -> None:
    put(tmp_path / f"a.json.{ending}", "x")

    with pytest.raises(SourceError, match="packed in a way that Spark cannot read"):
        fix(tmp_path)


def test_what_tar_packed_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "a.json.tar.gz", "x")

    with pytest.raises(SourceError, match="packed in a way that Spark cannot read"):
        fix(tmp_path, "json")


def test_a_store_gives_its_own_files(bucket: str) -> None:
    source = fix(bucket)

    assert (source.format, source.root) == ("json", bucket)
    assert [(f.path, f.size) for f in source.files] == [("b.jsonl", 9), ("day=1/a.jsonl", 9)]


def test_a_single_file_of_a_store_is_found(bucket: str) -> None:
    source = fix(f"{bucket}/b.jsonl")

    assert ([(f.path, f.size) for f in source.files], source.root) == ([("b.jsonl", 9)], bucket)


def test_nothing_in_a_store_is_an_error(bucket: str) -> None:
    with pytest.raises(SourceError, match=r"nothing at memory://bucket/returns"):
        fix("memory://bucket/returns")


def test_files_of_a_store_that_vanished_or_changed_are_reported(bucket: str) -> None:
    source = fix(bucket)
    store = fsspec.filesystem("memory")
    assert source.missing_or_changed() == []

    store.rm_file("/bucket/orders/b.jsonl")
    store.pipe_file("/bucket/orders/day=1/a.jsonl", b"{}\n")

    assert source.missing_or_changed() == list(source.files)


def lose(file: Path) -> None:
    file.unlink()


def rewrite(file: Path) -> None:
    put(file, '{"a": 2}\n')
    os.utime(file, ns=(1, 1))


def test_a_file_that_changed_or_came_since_the_source_was_fixed_stops_the_load_or_is_not_read(
    tmp_path: Path, spark: SparkSession
) -> None:
    for name in "abc":
        put(tmp_path / f"{name}.json", '{"a": 1}\n')
    source = fix(tmp_path)
    put(tmp_path / "d.json", '{"a": 2}\n')
    assert read(spark, source).column("a") == [1, 1, 1]

    lose(tmp_path / "a.json")
    rewrite(tmp_path / "b.json")

    assert [f.path for f in source.missing_or_changed()] == ["a.json", "b.json"]
    message = r"2 files vanished or changed .*: a\.json, b\.json\. Nothing"
    with pytest.raises(SourceError, match=message):
        read(spark, source)
    for changed in ("a.json", "b.json"):
        with pytest.raises(SourceError, match=rf"1 file vanished or changed .*: {changed}"):
            read(spark, source, only=[changed])
    assert read(spark, source, only=["c.json"]).column("a") == [1]


def test_only_names_files_that_were_fixed(tmp_path: Path, spark: SparkSession) -> None:
    put(tmp_path / "a.json", '{"a": 1}\n')

    with pytest.raises(ValueError, match=r"was fixed without b\.json"):
        read(spark, tmp_path, only=["b.json"])
    assert read(spark, tmp_path, only=[]).rows == []


def test_a_delta_table_has_no_files_to_choose(tmp_path: Path, spark: SparkSession) -> None:
    source = FixedDelta(str(tmp_path), 0, str(tmp_path))

    with pytest.raises(ValueError, match="`only` is for files"):
        read(spark, source, only=["a.parquet"])


PARQUET = b"PAR1 and so on PAR1"


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.parquet", b"", "a.parquet is empty, and should be parquet"),
        ("a.parquet", b"a,b\n1,2\n", "does not begin and end as a Parquet file does"),
        ("a.parquet", b"PAR1 cut off", "does not begin and end as a Parquet file does"),
        ("a.json", b"\x1f\x8b\x08 and so on", "compressed, though its name does not end in .gz"),
        ("a.json", "\ufeff{}".encode("utf-16-le"), "is UTF-16, not UTF-8"),
        ("a.csv", PARQUET, "is a Parquet file, and should be csv"),
    ],
)
def test_a_file_that_is_not_of_its_format_is_named(
    tmp_path: Path, spark: SparkSession, name: str, content: bytes, expected: str
) -> None:
    put(tmp_path / name, content)

    with pytest.raises(SourceError, match=expected):
        read(spark, tmp_path)


def test_any_folder_and_file_name_is_read_and_reported_as_it_was_listed(
    tmp_path: Path, spark: SparkSession
) -> None:
    folder = tmp_path / "a b%20c{d}[e]*?é+#&"
    for name in ("x y.json", "%41+{1}.json", "n/é?.json"):
        put(folder / name, '{"a": 1}\n')

    source = fix(folder)

    assert sorted(read(spark, source).column("_file")) == sorted(paths(source))


def test_folders_of_partitions_are_columns_whose_types_lose_nothing(
    tmp_path: Path, spark: SparkSession
) -> None:
    table = pa.table({"a": [1]})
    for name in (
        "n=1/d=2017-01-02/z=01/t=x%2Fy",
        "n=-20/d=2017-01-03/z=2/t=__HIVE_DEFAULT_PARTITION__",
    ):
        put(tmp_path / name / "a.parquet", b"")
        pq.write_table(table, tmp_path / name / "a.parquet")

    found = read(spark, tmp_path)

    assert found.own == {"a": "bigint", "n": "bigint", "d": "date", "z": "string", "t": "string"}
    rows = sorted((row["n"], str(row["d"]), row["z"], row["t"]) for row in found.rows)
    assert rows == [(-20, "2017-01-03", "2", None), (1, "2017-01-02", "01", "x/y")]


def test_partitions_keep_their_type_when_only_some_files_are_read(
    tmp_path: Path, spark: SparkSession
) -> None:
    for name in ("1", "x"):
        put(tmp_path / f"p={name}" / "a.csv", "a\n5\n")

    one = read(spark, tmp_path, only=["p=1/a.csv"])

    assert (one.own, one.column("p")) == ({"a": "bigint", "p": "string"}, ["1"])


def test_partitions_of_other_depths_are_null_where_there_is_none(
    tmp_path: Path, spark: SparkSession
) -> None:
    put(tmp_path / "p=7" / "day=1" / "a.json", '{"a": 1, "Day": "first"}\n')
    put(tmp_path / "p=8.json", '{"a": 2}\n')

    found = read(spark, tmp_path)

    assert sorted((row["a"], row["p"]) for row in found.rows) == [(1, 7), (2, None)]
    assert found.own == {"a": "bigint", "p": "bigint", "Day": "string"}  # which the file holds too
