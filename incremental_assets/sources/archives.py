"""Zip archives of a feed: unpacked into files below the lake for as long as a batch reads them.

Spark reads no zip, and wherever it runs it reads the lake. A file keeps the path of its archive, so
that its rows are those of the archive: replaced when that is repaired, and retracted with it.
"""

from __future__ import annotations

import errno
import lzma
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from pyspark.sql import Column
from pyspark.sql import functions as F

from incremental_assets.errors import LakeError, SourceError
from incremental_assets.sources.layout import is_hidden
from incremental_assets.sources.source_file import SourceFile, not_readable
from incremental_assets.sources.stored_files import (
    UNKNOWN_COMPRESSED,
    DataFiles,
    FeedFormat,
    may_be_of,
)
from incremental_assets.storage import create_file, files_below, open_file, remove

UNPACKED = "_unpacked"
"""The folder of the lake with a folder for each table whose batch reads archives now."""
LARGEST_RATIO = 100
"""How many times its size an archive may have unpacked, where that is more than `HARMLESS`."""
HARMLESS = 2**30
_ENCRYPTED = 0x1
_AT_ONCE = 4
_CHUNK = 1 << 20
_LONGEST_NAME = 100
_OTHER_SIGNS = re.compile(r"[^A-Za-z0-9_.-]")
_BROKEN = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError)


@dataclass(frozen=True, slots=True)
class UnpackFolder:
    """The folder of a batch, in the one of its table, that archives are unpacked to.

    Both are below a folder of their own in the lake: what is removed is never above them.
    """

    lake: str
    table: str
    batch: int

    def __post_init__(self) -> None:
        if not self.lake.strip("/ .") or not self.table.strip("/ ."):
            raise ValueError(f"archives are unpacked below a lake, for a table, not in {self!r}")

    @property
    def of_table(self) -> str:
        return f"{self.lake}/{UNPACKED}/{self.table.replace('/', '_')}"

    @property
    def of_batch(self) -> str:
        return f"{self.of_table}/{self.batch}"


def is_archive(path: str) -> bool:
    """Whether a file is unpacked before it is read."""
    return path.lower().endswith(".zip")


@contextmanager
def unpacked(
    root: str, archives: Sequence[SourceFile], kind: FeedFormat, folder: UnpackFolder
) -> Iterator[DataFiles]:
    """The files in archives below a root, as files below the batch's folder, removed afterwards.

    What is left of batches of the table that were killed is removed before.
    Names that begin with `.` or `_` are no data there either. Raises SourceError for an archive
    that is broken, encrypted or a bomb, or holds a file that by its name is of no such format.
    """
    to = folder.of_batch
    remove(folder.of_table)
    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(partial(_unpack, root, kind, to), archives))
        yield DataFiles(to, tuple(SourceFile.of(file) for file in files_below(to)))
    finally:
        remove(to)


def archive_of(file: Column, archives: Sequence[SourceFile]) -> Column:
    """The path of the archive, one of these, that an unpacked file is from."""
    folder = F.left(file, F.length(file) - F.length(F.substring_index(file, "/", -1)) - 1)
    names = [archive.path.rpartition("/")[2] for archive in archives]
    if all(_folder(name) == name for name in names):
        return folder
    name = F.substring_index(folder, "/", -1)
    own = F.replace(F.replace(name, F.lit("%3D"), F.lit("=")), F.lit("%25"), F.lit("%"))
    return F.concat(F.left(folder, F.length(folder) - F.length(name)), own)


def _folder(name: str) -> str:
    """The name of the folder for an archive; with an `=`, it would name a column."""
    return name.replace("%", "%25").replace("=", "%3D")


def _unpack(root: str, kind: FeedFormat, to: str, archive: SourceFile) -> None:
    where = f"{root}/{archive.path}"
    parents, slash, name = archive.path.rpartition("/")
    folder = f"{to}/{parents}{slash}{_folder(name)}"
    try:
        with open_file(where) as stream, zipfile.ZipFile(stream) as opened:
            for number, member in enumerate(_data_in(opened, where, archive.size, kind)):
                # Its own name is for messages and its ending, not for a place on the disk.
                own = _OTHER_SIGNS.sub("_", member.filename)[-_LONGEST_NAME:]
                with (
                    opened.open(member) as content,
                    create_file(f"{folder}/{number:05}-{own}") as file,
                ):
                    shutil.copyfileobj(content, file, _CHUNK)
    except _BROKEN as error:
        raise _refused(where, f"cannot be unpacked ({error})") from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise LakeError(
                f"{where} cannot be unpacked: there is no room for it below {to}. Nothing was "
                "loaded; make room, and run again."
            ) from error
        if not error.errno:  # of damaged bzip2
            raise _refused(where, f"cannot be unpacked ({error})") from error
        raise not_readable(error.filename or where, error) from error


def _data_in(
    archive: zipfile.ZipFile, where: str, size: int, kind: FeedFormat
) -> list[zipfile.ZipInfo]:
    """The files in an archive that are data. Raises SourceError where it is not to be unpacked."""
    members = [
        member
        for member in archive.infolist()
        if not member.is_dir() and not any(map(is_hidden, _names(member.filename)))
    ]
    seen: set[str] = set()
    for member in members:
        name = member.filename
        if member.flag_bits & _ENCRYPTED:
            raise _refused(where, f"is encrypted ({name})")
        if name in seen:
            raise _refused(where, f"holds {name} twice")
        if name.lower().endswith(UNKNOWN_COMPRESSED) or not may_be_of(kind, name):
            raise _refused(where, f"holds {name}, which by its name is not {kind}")
        seen.add(name)
    total = sum(member.file_size for member in members)
    if total > HARMLESS and total > LARGEST_RATIO * size:
        much = f"{total / 2**20:,.0f} MiB unpacked, more than {LARGEST_RATIO} times its size"
        raise _refused(where, f"would have {much}")
    return members


def _names(path: str) -> list[str]:
    """The names in a path, such as `./a/b`, that is not used as one."""
    return [name for name in path.split("/") if name not in (".", "..")]


def _refused(where: str, what: str) -> SourceError:
    return SourceError(
        f"{where} {what}. Nothing was loaded; repair or remove it, or land the files that are in "
        "it, and run again."
    )
