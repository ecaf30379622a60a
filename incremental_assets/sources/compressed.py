"""The content of files that are compressed as Spark reads them, without Spark."""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Final

import pyarrow as pa

DAMAGED: Final = (EOFError, gzip.BadGzipFile, zlib.error, pa.ArrowException)
"""What reading damaged content raises, but for an OSError without a number, of .bz2 and .zst."""


@contextmanager
def decompressed(stream: IO[bytes], name: str) -> Iterator[IO[bytes]]:
    """The content of a file, by the ending of its name."""
    unpacked: Any = stream
    match name.lower().rpartition(".")[2]:
        case "gz":
            unpacked = gzip.GzipFile(fileobj=stream)
        case "bz2":
            unpacked = bz2.BZ2File(stream)
        case "zst" | "zstd":
            unpacked = pa.CompressedInputStream(pa.PythonFile(stream), "zstd")
    yield unpacked
