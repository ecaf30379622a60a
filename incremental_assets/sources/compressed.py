"""The content of files that are compressed as Spark reads them, without Spark."""

from __future__ import annotations

import bz2
import errno
import gzip
import zlib
from typing import IO, Any, Final, cast

import pyarrow as pa

DAMAGED: Final = (EOFError, gzip.BadGzipFile, zlib.error, pa.ArrowException)
"""What reading damaged content raises, but for an OSError without a number, of .bz2 and .zst."""


def is_damage(error: OSError) -> bool:
    """Whether content is damaged, such as of .bz2 and .zst, and not a file that is not read.

    A store raises FileNotFoundError without a number, and a place before a file's begin is invalid.
    """
    return type(error) is OSError and error.errno in (None, errno.EINVAL)


def decompressed(stream: IO[bytes], name: str) -> IO[bytes]:
    """The content of a file, by the ending of its name."""
    unpacked: Any = stream
    match name.lower().rpartition(".")[2]:
        case "gz":
            unpacked = gzip.GzipFile(fileobj=stream)
        case "bz2":
            unpacked = bz2.BZ2File(stream)
        case "zst" | "zstd":
            unpacked = pa.CompressedInputStream(pa.PythonFile(stream), "zstd")
    return cast("IO[bytes]", unpacked)
