"""Zip archives of a feed: their rows land as theirs, and nothing of them is left unpacked."""

from __future__ import annotations

import gzip
import io
import json
import stat
import struct
import zipfile
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import fsspec
import pytest
from pyspark.sql import SparkSession

from incremental_assets.engine.kinds import kind_of
from incremental_assets.engine.settling import TableSettling
from incremental_assets.errors import LakeError, SourceError
from incremental_assets.settings import Settings
from incremental_assets.sources import archives
from incremental_assets.sources.archives import UnpackFolder, unpacked
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.sources.layout import is_hidden
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.table import Table
from incremental_assets.testing import Lake
from incremental_assets.writes import Append
from incremental_assets_tests.plan.ledgers import EMPTY

DAY = date(2024, 5, 1)
_Members = Mapping[str, bytes]


def zipped(members: _Members, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def lines(*numbers: int) -> bytes:
    return "".join(json.dumps({"id": number}) + "\n" for number in numbers).encode()


def test_rows_of_an_archive_land_as_its_own_and_are_replaced_with_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    feed = LandedFiles("sales", layout="%Y-%m-%d/")
    bronze = Table("bronze/sales", "", reads=(feed,), write=Append())
    lake = Lake(spark, tmp_path)
    lake.settings = lake.settings.replace(start_date=DAY)
    folder, left = tmp_path / f"landing/sales/{DAY}", tmp_path / "lake/_unpacked/bronze_sales"
    (left / "0").mkdir(parents=True)
    (left / "0/of a killed batch").write_bytes(lines(99))
    folder.mkdir(parents=True)
    (folder / "plain.json").write_bytes(lines(1))
    several = {
        "deep/a.json": lines(2, 3),
        "./../b.json": lines(4),
        "c.json.gz": gzip.compress(lines(5)),
        "empty.json": b"",
        "__MACOSX/._a.json": b"\x00\x05",
        "no json": b"no json\n",
    }
    (folder / "a%20=b é.ZIP").write_bytes(zipped(several))
    (folder / "other.json.zip").write_bytes(zipped({"d.json": lines(6)}, zipfile.ZIP_LZMA))
    (folder / "without.zip").write_bytes(zipped({}))
    (folder / "nothing.zip").touch()

    def landed() -> set[tuple[str, Any]]:
        lake.load(bronze, DAY)
        found = lake.rows(bronze, "_file", "payload", "_raw").rows()
        assert not list(left.glob("*"))
        return {
            (path.rpartition("/")[2], raw or json.loads(payload)["id"])
            for path, payload, raw in found
        }

    first = {("plain.json", 1), ("other.json.zip", 6)}
    assert landed() == first | {("a%20=b é.ZIP", value) for value in (2, 3, 4, 5, "no json")}

    (folder / "a%20=b é.ZIP").write_bytes(zipped({"a.json": lines(7)}))
    assert landed() == first | {("a%20=b é.ZIP", 7)}

    (folder / "broken.zip").write_bytes(zipped(several)[:-1])
    with pytest.raises(SourceError, match=r"broken\.zip cannot be unpacked"):
        lake.load(bronze, DAY)
    (folder / "broken.zip").write_bytes(zipped({"a.json": lines(8)}))
    assert landed() == first | {("a%20=b é.ZIP", 7), ("broken.zip", 8)}


def encrypted() -> bytes:
    content = bytearray(zipped({"a.csv": b"id\n1\n"}))
    content[content.index(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


def damaged() -> bytes:
    content = bytearray(zipped({"a.csv": b"id\n1\n"}, zipfile.ZIP_STORED))
    content[content.index(b"id\n1")] ^= 1
    return bytes(content)


def twice() -> bytes:
    return zipped({"a.csv": b"id\n1\n", "b.csv": b"id\n2\n"}).replace(b"b.csv", b"a.csv")


def in_one(*archives_: bytes) -> bytes:
    return b"".join(archives_)


def with_lost_entry() -> bytes:
    """The comment of the first file, by a byte of the directory, is all of the second one."""
    content = bytearray(zipped({"a.csv": b"id\n1\n", "b.csv": b"id\n2\n"}))
    content[content.index(b"PK\x01\x02") + 32] = 46 + len("b.csv")
    return bytes(content)


def renamed(old: bytes, new: bytes) -> bytes:
    """With another name in the directory alone."""
    first, _, rest = zipped({"a.csv": b"id\n1\n", "b.csv": b"id\n2\n"}).rpartition(old)
    return first + new + rest


def nameless() -> bytes:
    content = zipped({"a.csv": b"id\n1\n"})
    at, end = content.index(b"PK\1\2"), content.index(b"PK\5\6")
    size = struct.pack("<I", end - at - len("a.csv"))
    entry = content[at : at + 28] + b"\0\0" + content[at + 30 : at + 46] + content[at + 51 : end]
    return content[:at] + entry + content[end : end + 12] + size + content[end + 16 :]


def linked() -> bytes:
    content, link = io.BytesIO(), zipfile.ZipInfo("a.csv")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(link, "/etc/passwd")
    return content.getvalue()


ONE = zipped({"a.csv": b"id\n1\n"})
INNER = zipped({"a.csv": b"id\n1\n", "inner.csv": ONE}, zipfile.ZIP_STORED)
REFUSED: dict[str, Any] = {
    "is encrypted (a.csv)": encrypted,
    "cannot be unpacked (Bad CRC-32 for file 'a.csv')": damaged,
    "cannot be unpacked (File is not a zip file)": lambda: b"id\n1\n",
    "holds a.csv twice": twice,
    "cannot be unpacked (its first file is not at": lambda: in_one(ONE, ONE),
    "cannot be unpacked (its first file is": lambda: INNER[: INNER.rindex(b"PK\5\6", 0, -22) + 22],
    "cannot be unpacked (it does not begin as": lambda: in_one(ONE, zipped({})),
    "cannot be unpacked (it does not begin": lambda: in_one(b"#!/bin/sh\n", ONE),
    "cannot be unpacked (its directory has 1 of 2 files)": with_lost_entry,
    "cannot be unpacked (File name in directory '_.csv'": lambda: renamed(b"b.csv", b"_.csv"),
    "cannot be unpacked (File name in directory 'b.cs/'": lambda: renamed(b"b.csv", b"b.cs/"),
    "holds a.csv, which is a link": linked,
    "holds no data, but _a/b.csv": lambda: zipped({"_a/b.csv": b"id\n1\n"}),
    "holds no data, but a\\_b.csv": lambda: zipped({"a\\_b.csv": b"id\n1\n"}),
    "holds a file without a name": nameless,
    "holds s.xlsx, which by its name is not csv": lambda: zipped({"s.xlsx": b"PK"}),
    "holds of=x/a.csv, whose folder names a column": lambda: zipped({"of=x/a.csv": b"id\n1\n"}),
    "holds a.xls.xz, which by its name is not csv": lambda: zipped({"a.xls.xz": b"PK"}),
    "holds a.csv.tar.gz, which by its name is not csv": lambda: zipped({"a.csv.tar.gz": b""}),
    "holds more than 3 files": lambda: zipped(dict.fromkeys(map(str, range(4)), b"")),
    "holds inner.zip, which by its name is not csv": lambda: zipped({"inner.zip": zipped({})}),
    "holds a.parquet, which by its name is not csv": lambda: zipped({"a.parquet": b""}),
    "would have 5 MiB unpacked, more than 100 times its size": lambda: zipped(
        {"a.csv": b"\0" * 5_000_000}
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_an_archive_that_cannot_be_unpacked_says_why_and_leaves_nothing(
    message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "HARMLESS", 1_000_000)
    monkeypatch.setattr(archives, "MOST_MEMBERS", 3)
    content = REFUSED[message]()
    for name, one in (("bad.zip", content), ("good.zip", zipped({"a.csv": b"id\n1\n"}))):
        (tmp_path / name).write_bytes(one)
    files = [SourceFile("good.zip", 1), SourceFile("bad.zip", len(content))]
    folder = UnpackFolder(f"{tmp_path}/lake", "bronze/sales", 1)

    with (
        pytest.raises(SourceError, match="Nothing was loaded") as refused,
        unpacked(str(tmp_path), files, "csv", folder),
    ):
        pass

    assert f"{tmp_path}/bad.zip {message}" in str(refused.value)
    assert not Path(folder.of_batch).exists()


def test_archives_of_an_object_store_are_unpacked_there() -> None:
    store = fsspec.filesystem("memory")
    store.pipe_file("/archives/sales/a.zip", zipped({"x/a.csv": b"id\n1\n"}))
    files = [SourceFile("sales/a.zip", 1)]

    folder = UnpackFolder("memory://lake", "t", 1)
    with unpacked("memory://archives", files, "csv", folder) as data:
        (file,) = data.files
        assert file.path == "sales/0-a.zip/00000-x-a.csv"
        assert store.cat_file(f"{data.root.removeprefix('memory:/')}/{file.path}") == b"id\n1\n"

    assert not store.exists("/lake/_unpacked/t/1")
    store.rm("/archives", recursive=True)


@pytest.mark.parametrize(("lake", "table"), [("", "bronze/a"), ("/", "bronze/a"), ("lake", "..")])
def test_archives_are_unpacked_below_a_lake_alone(lake: str, table: str) -> None:
    with pytest.raises(ValueError, match="below a lake"):
        UnpackFolder(lake, table, 1)


def test_nothing_but_what_the_table_unpacked_is_removed(tmp_path: Path) -> None:
    folder = UnpackFolder(str(tmp_path), "bronze/sales", 2)
    kept = [tmp_path / name for name in ("mine", "_unpacked/bronze_other/1/a.csv")]
    left = tmp_path / "_unpacked/bronze_sales/1/a.csv"
    for file in (*kept, left):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"id\n1\n")

    with unpacked(str(tmp_path), [], "csv", folder):
        assert not left.exists()

    assert all(file.exists() for file in kept)


def test_an_archive_of_more_files_than_its_end_can_count_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zipped({f"{number}.csv": b"" for number in range(66_000)}))

    with unpacked(
        str(tmp_path), [SourceFile("a.zip", 1)], "csv", UnpackFolder(f"{tmp_path}/l", "t", 1)
    ) as data:
        assert data.files == ()  # empty ones are not written


def test_files_are_written_by_names_that_spark_reads(tmp_path: Path) -> None:
    names = ("a.?COPYING?", "?b.csv", ".\\c.csv", "d" * 300 + ".csv")
    (tmp_path / f"{'n' * 251}.zip").write_bytes(zipped(dict.fromkeys(names, b"id\n1\n")))
    files = [SourceFile(f"{'n' * 251}.zip", 9)]

    with unpacked(str(tmp_path), files, "csv", UnpackFolder(f"{tmp_path}/lake", "t", 1)) as data:
        found = [file.path for file in data.files]

    assert len(found) == len(names)
    assert not any(is_hidden(name) for path in found for name in path.split("/"))


def test_an_error_inside_of_an_archive_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zipped({"deep/b.csv": b"id\n1\n"}))
    folder = UnpackFolder(f"{tmp_path}/lake", "t", 1)

    with (
        pytest.raises(SourceError) as refused,
        unpacked(str(tmp_path), [SourceFile("a.zip", 1)], "csv", folder) as data,
    ):
        raise SourceError(f"{data.root}/{data.files[0].path}: line 2")

    assert str(refused.value) == f"{tmp_path}/a.zip: deep/b.csv: line 2"


def test_a_lake_without_room_is_not_called_a_broken_archive(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zipped({"b.csv": b"id\n1\n"}))
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake/_unpacked").touch()

    with (
        pytest.raises(LakeError, match="it cannot be written"),
        unpacked(
            str(tmp_path), [SourceFile("a.zip", 1)], "csv", UnpackFolder(f"{tmp_path}/lake", "t", 1)
        ),
    ):
        pass


def test_an_archive_that_is_gone_from_a_store_is_not_called_broken() -> None:
    with (
        pytest.raises(SourceError, match=r"a\.zip cannot be read: "),
        unpacked("memory://none", [SourceFile("a.zip", 1)], "csv", UnpackFolder("/l", "t", 1)),
    ):
        pass


def test_what_a_killed_batch_unpacked_is_removed_once_the_batch_is_settled(tmp_path: Path) -> None:
    table = Table("bronze/sales", "", reads=(LandedFiles("sales"),), write=Append())
    settings = Settings(lake=str(tmp_path), landing=str(tmp_path / "landing"))
    left = Path(UnpackFolder(settings.lake, table.name, 1).of_batch) / "0/a.csv"
    left.parent.mkdir(parents=True)
    left.touch()
    settling = TableSettling.of(settings, table, kind_of(table), print)

    settling.remove_outdated(EMPTY)
    assert left.exists()  # it may be of a batch that goes on
    settling.settled.add(DAY)
    settling.remove_outdated(EMPTY)

    assert not left.exists()
