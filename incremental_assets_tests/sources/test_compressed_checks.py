"""Files of .bz2 and .zst that are cut off, or no such files, are refused; nothing is unpacked."""

from __future__ import annotations

import bz2
import random
from collections.abc import Callable
from io import BytesIO
from itertools import accumulate
from pathlib import Path
from typing import IO
from unittest.mock import Mock

import fsspec
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from incremental_assets.errors import SourceError
from incremental_assets.sources import compressed_checks
from incremental_assets.sources.compressed_checks import (
    require_bzip2,
    require_whole,
    require_whole_content,
    require_zstd,
)
from incremental_assets.sources.json_documents import read_documents
from incremental_assets.sources.lines import read_lines
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.sources.stored_files import DataFiles
from incremental_assets_tests.sources.reading import put

ROWS = b'{"id":1}\n' * 30
NOISE = random.Random(1).randbytes(300_000)  # of several blocks, however it is compressed
SKIPPABLE = b"\x5a\x2a\x4d\x18\x05\0\0\0notes"


def zstd(content: bytes) -> bytes:
    packed: bytes = pa.compress(content, codec="zstd", asbytes=True)
    return packed


def bzip2(content: bytes) -> bytes:
    return bz2.compress(content, 1)


BZIP2 = (bzip2(ROWS), bzip2(b""), bzip2(ROWS[:9]))
ZSTD = (SKIPPABLE, zstd(ROWS), zstd(b""), zstd(b"x" * 300_000), SKIPPABLE, zstd(ROWS))


def is_whole(require: Callable[[IO[bytes]], None], content: bytes) -> bool:
    try:
        require(BytesIO(content))
    except (EOFError, ValueError, OSError):
        return False
    return True


@pytest.mark.parametrize(
    ("require", "parts"), [(require_bzip2, BZIP2), (require_zstd, ZSTD)], ids=["bz2", "zstd"]
)
def test_a_file_is_whole_where_it_ends_with_one_of_its_parts_and_nowhere_else(
    require: Callable[[IO[bytes]], None], parts: tuple[bytes, ...]
) -> None:
    content = b"".join(parts)

    found = [end for end in range(1, len(content) + 1) if is_whole(require, content[:end])]

    assert found == list(accumulate(map(len, parts)))


@pytest.mark.parametrize("require", [require_bzip2, require_zstd])
@pytest.mark.parametrize("content", [ROWS, b"<html>503</html>", b"x"], ids=["rows", "page", "x"])
def test_text_is_neither(require: Callable[[IO[bytes]], None], content: bytes) -> None:
    assert not is_whole(require, content)


@pytest.mark.parametrize(("require", "pack"), [(require_bzip2, bzip2), (require_zstd, zstd)])
def test_what_follows_or_lies_between_is_refused(
    require: Callable[[IO[bytes]], None], pack: Callable[[bytes], bytes]
) -> None:
    one = pack(ROWS)

    assert is_whole(require, one + one)
    assert not is_whole(require, one + b"end")
    assert not is_whole(require, one + b"\0" + one)


def test_a_block_of_bzip2_without_its_mark_is_missed() -> None:
    content = bytearray(bzip2(NOISE))
    content[content.rindex(b"\x31\x41\x59\x26\x53\x59")] ^= 1

    assert not is_whole(require_bzip2, bytes(content))


@pytest.mark.parametrize("chunk", [11, 12, 4096, 1 << 20])
def test_a_whole_file_of_bzip2_is_not_unpacked(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(compressed_checks, "_CHUNK", chunk)
    monkeypatch.delattr(compressed_checks, "_unpack")

    for length in range(40):  # the last mark begins at each bit of a byte
        require_bzip2(BytesIO(bzip2(NOISE[:length]) + bzip2(b"") + bzip2(NOISE[-length:])))
    require_bzip2(BytesIO(bzip2(NOISE[: chunk * 1000])))


def test_marks_that_are_in_a_block_by_chance_are_told_by_unpacking(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compressed_checks, "_has_all_marks", lambda _: False)

    require_bzip2(BytesIO(b"".join(BZIP2)))
    with pytest.raises(EOFError, match="ends within a stream"):
        require_bzip2(BytesIO(b"".join(BZIP2)[:-1]))


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "bz2/a.json"])
def test_what_is_compressed_otherwise_or_not_at_all_is_not_read(name: str) -> None:
    require_whole_content(Mock(spec=[]), name)


@pytest.mark.parametrize("root", ["disk", "store"])
@pytest.mark.parametrize("read", [read_lines, read_documents])
@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.json.BZ2", ROWS, "Invalid data stream"),
        ("a.json.bz2", b"".join(BZIP2)[:-20], "ends within a stream of bzip2"),
        ("a.json.zst", zstd(ROWS) + zstd(ROWS)[:9], "ends within a frame of zstd"),
        ("a.json.zstd", ROWS, "byte 0 is not the beginning of a zstd frame"),
    ],
    ids=["text as bz2", "a cut stream", "a cut frame", "text as zstd"],
)
def test_json_of_a_file_that_is_not_whole_is_refused_on_a_disk_and_in_a_store(
    tmp_path: Path,
    root: str,
    read: Callable[[SparkSession, DataFiles], DataFrame],
    name: str,
    content: bytes,
    expected: str,
) -> None:
    if root == "disk":
        put(tmp_path / name, content)
        folder = str(tmp_path)
    else:
        folder = f"memory:/{tmp_path}"
        fsspec.filesystem("memory").pipe_file(f"{tmp_path}/{name}", content)
    data = DataFiles(folder, (SourceFile(name, len(content)),))

    with pytest.raises(SourceError, match=f"{name} cannot be unpacked: .*{expected}.*Nothing was"):
        read(Mock(spec=SparkSession), data)


def test_a_file_that_is_gone_is_not_called_damaged(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"a\.bz2 cannot be read: No such file"):
        require_whole(DataFiles(str(tmp_path), (SourceFile("a.bz2", 1),)))
