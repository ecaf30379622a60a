"""CSV files are looked through before Spark reads them, on a disk and in an object store."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import fsspec
import pyarrow as pa
import pytest
from fsspec import AbstractFileSystem

from incremental_assets.errors import SourceError
from incremental_assets.sources import csv_headers
from incremental_assets.sources.csv_format import RFC_4180
from incremental_assets.sources.csv_headers import CsvFile, csv_files
from incremental_assets.storage import open_file
from incremental_assets_tests.sources.reading import put

TEXT = b"a,b\n" + b"1,2\n" * 1000


def damaged(packed: bytes) -> bytes:
    middle = len(packed) // 2
    return packed[:middle] + bytes(255 - byte for byte in packed[middle:])


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv.gz", gzip.compress(TEXT)[:-12], "Compressed file ended"),
        ("a.csv.gz", damaged(gzip.compress(TEXT)), "Error -3"),
        ("a.csv.bz2", damaged(bz2.compress(TEXT)), "Invalid data stream"),
        ("a.csv.bz2", bz2.compress(TEXT) + b"\0" + bz2.compress(TEXT), "Invalid data stream"),
        ("a.csv.zst", damaged(pa.compress(TEXT, codec="zstd", asbytes=True)), "ZSTD"),
        ("a.csv.ZSTD", damaged(pa.compress(TEXT, codec="zstd", asbytes=True)), "ZSTD"),
    ],
)
def test_a_file_that_was_cut_off_or_damaged_is_refused(
    tmp_path: Path, name: str, content: bytes, expected: str
) -> None:
    put(tmp_path / name, content)

    with pytest.raises(SourceError, match=f"{name} cannot be read as CSV: {expected}.*repair"):
        csv_files(str(tmp_path), [name], RFC_4180)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[{"id":1,"name":"a"},{"id":2,"name":"b"}]', "looks like JSON"),
        ('{ "id": 1 }\n{ "id": 2 }\n', "looks like JSON"),
        ("[\n1\n]\n", "looks like JSON"),
        ("<html><body>503, try again</body></html>\n", "looks like XML or HTML"),
        ('<?xml version="1.0"?><rows><row id="1"/></rows>', "looks like XML or HTML"),
    ],
)
def test_a_document_on_one_line_is_no_header(tmp_path: Path, text: str, expected: str) -> None:
    put(tmp_path / "a.csv", text)

    with pytest.raises(SourceError, match=rf"a\.csv: the first line .* {expected}, not like the"):
        csv_files(str(tmp_path), ["a.csv"], RFC_4180)


def test_names_in_brackets_are_a_header(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", "[id],<5,{n}\n1,2,3\n")

    assert csv_files(str(tmp_path), ["a.csv"], RFC_4180)[0].names == ("[id]", "<5", "{n}")


@pytest.fixture
def store() -> Iterator[tuple[str, AbstractFileSystem]]:
    root = f"/{uuid4().hex}"
    memory = fsspec.filesystem("memory")
    memory.mkdir(root)
    yield f"memory:/{root}", memory
    memory.rm(root, recursive=True)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'id,note\n1,"abc\n2,x\n3,y\n', "record that begins on line 2 is never closed"),
        ("id,note\n1,öl\n".encode("latin-1"), "is not UTF-8"),
        (b'id,note\n1,"x"\r\n2,y\n', "its lines end in more than one way"),
    ],
)
def test_a_file_of_a_store_is_checked_as_on_a_disk(
    store: tuple[str, AbstractFileSystem], content: bytes, expected: str
) -> None:
    root, memory = store
    memory.pipe_file(f"{root}/a.csv", content)

    with pytest.raises(SourceError, match=f"{root}/a.csv.*{expected}"):
        csv_files(root, ["a.csv"], RFC_4180)


def test_a_file_of_a_store_is_fetched_once(
    store: tuple[str, AbstractFileSystem], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, memory = store
    memory.pipe_file(f"{root}/a.csv.gz", gzip.compress(b'id,note\n1,"a\nb"\n'))
    opened: list[str] = []
    monkeypatch.setattr(
        csv_headers, "open_file", lambda path: opened.append(path) or open_file(path)
    )

    found = csv_files(root, ["a.csv.gz"], RFC_4180)

    assert found == [CsvFile("a.csv.gz", ("id", "note"), is_whole=True)]
    assert [path for path in opened if path.startswith(root)] == [f"{root}/a.csv.gz"]


def test_a_file_of_one_column_is_read_whole_where_a_value_looks_like_no_line(
    tmp_path: Path,
) -> None:
    contents = {
        "space": "a\n1\n \n2\n",
        "zero": "a\r\n\0\r\n",
        "last": "a\n\t",
        "empty lines": "a\n\n1\n\n",
        "padded": "a\n 1 \n",
        "two columns": "a,b\n \n1,2\n",
    }
    for name, content in contents.items():
        put(tmp_path / name, content)

    def whole(*names: str) -> list[bool]:
        return [file.is_whole for file in csv_files(str(tmp_path), names, RFC_4180)]

    assert whole("space", "zero", "last") == [True, True, True]
    assert whole("empty lines", "padded", "two columns") == [False, False, False]


def test_the_ends_of_records_are_given_where_they_may_be_in_a_value(tmp_path: Path) -> None:
    contents = {
        "windows": b'a,b\r\n1,"x"\r\n',
        "mac": b'a,b\r1,"x"\r',
        "unix": b'a,b\n1,"x"\n',
        "no end": b'"a",b',
        "no quote": b"a,b\r\n1,2\r\n",
    }
    for name, content in contents.items():
        put(tmp_path / name, content)

    found = csv_files(str(tmp_path), list(contents), RFC_4180)

    assert [file.line_end for file in found] == ["\r\n", "\r", "", "", ""]


def test_a_file_that_a_store_does_not_give_is_not_called_damaged(
    store: tuple[str, AbstractFileSystem], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, _ = store

    def refused(path: str) -> None:
        raise PermissionError("Access Denied")  # without a number, as the clients of stores

    monkeypatch.setattr(csv_headers, "open_file", refused)
    with pytest.raises(SourceError, match=r"Access Denied.*the right to read it"):
        csv_files(root, ["a.csv"], RFC_4180)
