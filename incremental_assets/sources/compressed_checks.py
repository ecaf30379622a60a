"""Whether files of .bz2 and .zst are whole, by their structure alone: nothing is unpacked.

Spark takes the end of such a file for the end of its rows wherever it finds no further block, so
that what follows a damaged or cut beginning of a block would be missing without a word. What is
damaged inside a block has a checksum, or cannot be unpacked, and fails when Spark reads it; so does
any damage of .gz.
"""

from __future__ import annotations

import bz2
import os
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import IO

from incremental_assets.errors import SourceError
from incremental_assets.sources.compressed import is_damage
from incremental_assets.sources.source_file import SourceFile, not_readable
from incremental_assets.sources.stored_files import DataFiles
from incremental_assets.storage import answering, open_file

_AT_ONCE = 8
_CHUNK = 1 << 20

_FRAME = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")
_DICTIONARY_BYTES = (0, 1, 2, 4)
_SIZE_BYTES = (0, 2, 4, 8)
_REPEATED, _RESERVED = 1, 3  # types of blocks

_HEADER = re.compile(rb"BZh[1-9]")
_HEADER_BITS = 32
_BLOCK, _END = 0x314159265359, 0x177245385090
_MARK_BITS = 48 + 32  # a mark and the checksum behind it
_OVERLAP = 10  # bytes; a mark that begins within a byte is in eleven


def require_whole(data: DataFiles) -> None:
    """Raise SourceError for a file of .bz2 or .zst that is cut off, or not compressed so.

    Each such file is read once, at the speed of the disk or the store.
    """
    packed = [file for file in data.files if file.size and _ending(file.path) in _CHECKS]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(partial(_require_whole, data.root), packed))


def require_whole_content(stream: IO[bytes], name: str) -> None:
    """Raise EOFError, ValueError or OSError for a stream that is not what its name's ending says.

    Of .gz, and of what is not compressed, nothing is read.
    """
    check = _CHECKS.get(_ending(name))
    if check is not None:
        check(stream)


def _ending(name: str) -> str:
    return name.lower().rpartition(".")[2]


def _require_whole(root: str, file: SourceFile) -> None:
    where = f"{root}/{file.path}"
    try:
        with answering(where), open_file(where) as stream:
            require_whole_content(stream, where)
    except (EOFError, ValueError) as error:
        raise _damaged(where, error) from error
    except OSError as error:  # of bz2, too, as one that is none of the system
        raise (_damaged if is_damage(error) else not_readable)(where, error) from error


def _damaged(where: str, error: Exception) -> SourceError:
    return SourceError(
        f"{where} cannot be unpacked: {error}. Nothing was loaded; repair the file (it may be cut "
        "off, or not be compressed as its name says) or remove it, and run again."
    )


def require_zstd(stream: IO[bytes]) -> None:
    """Raise EOFError or ValueError for what is not one frame of zstd after another (RFC 8878)."""
    while magic := stream.read(len(_FRAME)):
        if magic == _FRAME:
            _pass_frame(stream)
        elif _SKIPPABLE.fullmatch(magic):  # 3.1.2
            _pass(stream, _number(stream, 4))
        elif len(magic) < len(_FRAME):
            raise EOFError("it ends within a frame of zstd")
        else:
            at = stream.tell() - len(_FRAME)
            raise ValueError(f"byte {at} is not the beginning of a zstd frame")


def _pass_frame(stream: IO[bytes]) -> None:
    """Go behind a frame, from block to block (3.1.1)."""
    described = _number(stream, 1)
    is_single = described >> 5 & 1
    content_size = _SIZE_BYTES[described >> 6] or is_single
    window = 1 - is_single
    _pass(stream, window + _DICTIONARY_BYTES[described & 3] + content_size)
    is_last = False
    while not is_last:
        block = _number(stream, 3)
        is_last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
        if kind == _RESERVED:
            raise ValueError(f"byte {stream.tell() - 3} is not the beginning of a zstd block")
        _pass(stream, 1 if kind == _REPEATED else size)
    if described >> 2 & 1:
        _pass(stream, 4)  # a checksum


def _number(stream: IO[bytes], size: int) -> int:
    found = stream.read(size)
    if len(found) < size:
        raise EOFError("it ends within a frame of zstd")
    return int.from_bytes(found, "little")


def _pass(stream: IO[bytes], size: int) -> None:
    """Go so many bytes on, all of which are there."""
    if size:
        stream.seek(size - 1, os.SEEK_CUR)
        _number(stream, 1)


def require_bzip2(stream: IO[bytes]) -> None:
    """Raise EOFError, ValueError or OSError for what is not one stream of bzip2 after another.

    Blocks begin and streams end with marks of 48 bits, at any bit; a mark's checksum follows it.
    That of a stream is made of those of its blocks, so where it is right no mark is missing. Where
    it is not, also because a block holds the bits of a mark by chance, the file is unpacked.
    """
    if not _has_all_marks(stream):
        stream.seek(0)
        _unpack(stream)


def _has_all_marks(stream: IO[bytes]) -> bool:
    marks: dict[int, tuple[int, int]] = {}
    headers: set[int] = set()
    size = 0
    for data, start in _pieces(stream):
        headers.update(start + found.start() for found in _HEADER.finditer(data))
        marks.update((start * 8 + bit, mark) for bit, mark in _marks(data))
        size = start + len(data)
    begin, checksum, is_inside = 0, 0, False
    for bit, (kind, own) in sorted(marks.items()):
        if not is_inside and (begin not in headers or bit != begin * 8 + _HEADER_BITS):
            return False
        if kind == _BLOCK:
            checksum, is_inside = (checksum << 1 & 0xFFFFFFFF | checksum >> 31) ^ own, True
        elif own != checksum:
            return False
        else:
            begin, checksum, is_inside = (bit + _MARK_BITS + 7) // 8, 0, False
    return not is_inside and begin == size


def _pieces(stream: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    """The content in pieces that overlap, each with the position at which it begins."""
    data, start = b"", 0
    while chunk := stream.read(_CHUNK):
        kept = data[-_OVERLAP:]
        start += len(data) - len(kept)
        data = kept + chunk
        yield data, start


def _marks(data: bytes) -> Iterator[tuple[int, tuple[int, int]]]:
    """The marks in some bytes: the bit at which each begins, its kind and its checksum."""
    for whole_bytes, shift, kind in _PATTERNS:
        at = data.find(whole_bytes)
        while at >= 0:
            bit = (at - bool(shift)) * 8 + shift
            if bit >= 0 and bit + _MARK_BITS <= len(data) * 8:
                found = _bits(data, bit, _MARK_BITS)
                if found >> 32 == kind:
                    yield bit, (kind, found & 0xFFFFFFFF)
            at = data.find(whole_bytes, at + 1)


def _bits(data: bytes, bit: int, count: int) -> int:
    end = bit + count
    found = int.from_bytes(data[bit // 8 : (end + 7) // 8], "big")
    return found >> -end % 8 & (1 << count) - 1


def _patterns() -> Iterator[tuple[bytes, int, int]]:
    """For each mark and place in a byte where it begins: the bytes that are all of the mark."""
    for kind in (_BLOCK, _END):
        yield kind.to_bytes(6, "big"), 0, kind
        for shift in range(1, 8):
            yield (kind << 8 - shift).to_bytes(7, "big")[1:6], shift, kind


_PATTERNS = tuple(_patterns())


def _unpack(stream: IO[bytes]) -> None:
    unpacker = bz2.BZ2Decompressor()
    while chunk := stream.read(_CHUNK):
        while chunk:
            if unpacker.eof:
                unpacker = bz2.BZ2Decompressor()
            unpacker.decompress(chunk, _CHUNK)
            while not (unpacker.eof or unpacker.needs_input):
                unpacker.decompress(b"", _CHUNK)
            chunk = unpacker.unused_data
    if not unpacker.eof:
        raise EOFError("it ends within a stream of bzip2")


_CHECKS: Mapping[str, Callable[[IO[bytes]], None]] = {
    "bz2": require_bzip2,
    "zst": require_zstd,
    "zstd": require_zstd,
}
