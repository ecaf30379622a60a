"""Zip archives of a feed: unpacked into files below the lake for as long as a batch reads them.

Spark reads no zip, and wherever it runs it reads the lake. A file keeps the path of its archive, so
that its rows are those of the archive: replaced when that is repaired, and retracted with it.
"""

from __future__ import annotations

import errno
import hashlib
import lzma
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from stat import S_ISLNK
from typing import IO

from pyspark.sql import Column
from pyspark.sql import functions as F

from incremental_assets.errors import LakeError, SourceError
from incremental_assets.sources.compressed import is_damage
from incremental_assets.sources.layout import is_hidden
from incremental_assets.sources.source_file import SourceFile, not_readable
from incremental_assets.sources.stored_files import (
    UNKNOWN_COMPRESSED,
    DataFiles,
    FeedFormat,
    is_foreign,
    is_tar,
)
from incremental_assets.storage import (
    answering,
    create_file,
    files_below,
    names_in,
    open_file,
    prune,
    remove,
)

UNPACKED = "_unpacked"
"""The folder of the lake with a folder for each table whose batch reads archives now."""
LARGEST_RATIO = 100
"""How many times its size an archive may have unpacked, where that is more than `HARMLESS`."""
HARMLESS = 2**30
MOST_MEMBERS = 100_000
_ENCRYPTED = 0x1
_AT_ONCE = 4
_CHUNK = 1 << 20
_LONGEST_NAME = 100
_OTHER_SIGNS = re.compile(r"[^A-Za-z0-9_.-]")
_BETWEEN = "\0"  # which is in no path
_MANY = 0xFFFF
_WITHOUT_FOLDERS = ("json", "json_document", "xml")  # have no columns of folders
_LONGEST_END = 22 + _MANY + 56 + 20  # with a comment, and what a larger archive has before it
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    IndexError,
    NotImplementedError,
    OverflowError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class UnpackFolder:
    """The folder of a batch, in the one of its table, that archives are unpacked to.

    Both are below a folder of their own in the lake: what is removed is never above them.
    """

    lake: str
    table: str
    batch: int

    def __post_init__(self) -> None:
        unpacked_of(self.lake, self.table)  # raises, where one of them is empty

    @property
    def of_table(self) -> str:
        return unpacked_of(self.lake, self.table)

    @property
    def of_batch(self) -> str:
        return f"{self.of_table}/{self.batch}"


def unpacked_of(lake: str, table: str) -> str:
    """The folder of a table, in which each of its batches has one of its own."""
    if not lake.strip("/ .") or not table.strip("/ ."):
        raise ValueError(
            f"archives are unpacked below a lake, for a table, not {lake!r}, {table!r}"
        )
    return f"{lake}/{UNPACKED}/{table.replace('/', '_')}"


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
    that is broken, encrypted or a bomb, or holds a file that by its name is of no such format, and
    LakeError where it cannot be written. Errors inside name the archive and the file in it.
    """
    with _writing(folder.of_table, root):
        remove_leftovers(folder.of_table, keep=str(folder.batch))
    of_archives = hashlib.blake2b(repr(archives).encode(), digest_size=8).hexdigest()
    to = f"{folder.of_batch}/{of_archives}"
    members: dict[str, str] = {}
    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            places = [f"{to}/{_inside(*each)}" for each in enumerate(archives)]
            for found in pool.map(partial(_unpack, root, kind), archives, places):
                members |= found
        yield DataFiles(to, tuple(SourceFile.of(file) for file in files_below(to)))
    except SourceError as error:
        text = str(error)
        if type(error) is not SourceError or to not in text:
            raise
        raise SourceError(_as_landed(text, members)) from error
    finally:
        with suppress(OSError):  # what is left is removed later, and the error is another one
            remove(to)
            prune(folder.of_table, str(folder.batch))


def remove_leftovers(of_table: str, keep: str = "") -> None:
    """Remove what killed batches of a table have unpacked; its lock is held."""
    for name in names_in(of_table):
        if name != keep:
            remove(f"{of_table}/{name}")


def archive_of(file: Column, archives: Sequence[SourceFile]) -> Column:
    """The path of the archive, one of these, that an unpacked file is from."""
    folder = F.substring_index(F.substring_index(file, "/", -2), "/", 1)
    number = F.substring_index(folder, "-", 1).cast("int")
    paths = F.split(F.lit(_BETWEEN.join(archive.path for archive in archives)), _BETWEEN)
    return F.element_at(paths, number + 1)


def _inside(number: int, archive: SourceFile) -> str:
    """The folder of an archive, in the same folders: they may name columns, and its name not.

    The number identifies it; the name is for messages.
    """
    parents, slash, name = archive.path.rpartition("/")
    return f"{parents}{slash}{number}-{_safe(name)}"


def _safe(name: str) -> str:
    """The end of a name, of signs that every disk and store takes, and Spark as no pattern."""
    return _OTHER_SIGNS.sub("-", name)[-_LONGEST_NAME:]


def _as_landed(text: str, members: Mapping[str, str]) -> str:
    """A message in which unpacked files are named by their archives."""
    for path, member in members.items():
        text = text.replace(path, member)
    return text


def _unpack(root: str, kind: FeedFormat, archive: SourceFile, folder: str) -> Mapping[str, str]:
    """Unpack an archive; gives the new files with what they are in it."""
    where = f"{root}/{archive.path}"
    found: dict[str, str] = {}
    try:
        with answering(where), open_file(where) as stream:
            _require_whole(stream, where, count := _entries(stream))
            with zipfile.ZipFile(stream) as opened:
                for number, member in enumerate(_data_in(opened, where, archive.size, kind, count)):
                    # Its own name is for messages and its ending, not for a place on the disk.
                    path = f"{folder}/{number:05}-{_safe(member.filename)}"
                    found[path] = f"{where}: {member.filename}"
                    with opened.open(member) as content:
                        _copy(content, path, where)
    except _BROKEN as error:
        raise _refused(where, f"cannot be unpacked ({error})") from error
    except OSError as error:
        if is_damage(error):
            raise _refused(where, f"cannot be unpacked ({error})") from error
        raise not_readable(where, error) from error
    return found


def _copy(content: IO[bytes], to: str, where: str) -> None:
    with _writing(to, where):
        file = create_file(to)
    try:
        while chunk := content.read(_CHUNK):
            with _writing(to, where):
                file.write(chunk)
    finally:
        with _writing(to, where):
            file.close()  # which uploads it to a store


@contextmanager
def _writing(to: str, where: str) -> Iterator[None]:
    try:
        with answering(to):
            yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            why, remedy = "there is no room for it", "make room"
        else:
            why, remedy = (
                f"it cannot be written ({error.strerror or error})",
                "correct the permissions of the lake",
            )
        raise LakeError(
            f"{where} cannot be unpacked to {to}: {why}. Nothing was loaded; {remedy}, and run "
            "again."
        ) from error


def _entries(stream: IO[bytes]) -> int:
    """How many entries an archive has, by its end.

    APPNOTE.TXT 4.3.14 and 4.3.16: the record at its end, or, for 65,535 and more, the one before.
    """
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - _LONGEST_END))
    end = stream.read()
    at = end.rfind(b"PK\5\6")
    if at < 0:
        raise zipfile.BadZipFile("File is not a zip file")
    (count,) = struct.unpack_from("<H", end, at + 10)
    larger = end.rfind(b"PK\6\6", 0, at)
    if count == _MANY and larger >= 0:
        (count,) = struct.unpack_from("<Q", end, larger + 32)
    return int(count)


def _require_whole(stream: IO[bytes], where: str, count: int) -> None:
    """Raise for an archive of too many files, or that does not begin where the file does."""
    if count > MOST_MEMBERS:
        raise _refused(where, f"holds more than {MOST_MEMBERS:,} files")
    stream.seek(0)
    if stream.read(4) not in ((b"PK\3\4",) if count else (b"PK\5\6", b"PK\6\6")):
        raise zipfile.BadZipFile("it does not begin as an archive of its files does")


def _data_in(
    archive: zipfile.ZipFile, where: str, size: int, kind: FeedFormat, count: int
) -> list[zipfile.ZipInfo]:
    """The files in an archive that are data. Raises SourceError where it is not to be unpacked."""
    every = archive.infolist()
    if len(every) != count:
        raise zipfile.BadZipFile(f"its directory has {len(every):,} of {count:,} files")
    if min((member.header_offset for member in every), default=0):
        # Of several archives in one file, only the last one would be read.
        raise zipfile.BadZipFile("its first file is not at its begin")
    if not all(member.filename for member in every):
        raise _refused(where, "holds a file without a name")
    files = [member for member in every if _names(member.filename)[-1]]
    members = [m for m in files if not any(map(is_hidden, _names(m.filename)))]
    data = {id(member) for member in members}
    for other in (member for member in every if id(member) not in data):
        if not other.flag_bits & _ENCRYPTED:
            archive.open(other).close()  # raises where its own header has another name
    if files and not members:
        raise _refused(where, f"holds no data, but {files[0].filename}, which by its name is none")
    _require_data(members, where, size, kind)
    return [member for member in members if member.file_size]


def _require_data(
    members: Sequence[zipfile.ZipInfo], where: str, size: int, kind: FeedFormat
) -> None:
    seen: set[str] = set()
    for member in members:
        name = member.filename
        if member.flag_bits & _ENCRYPTED:
            raise _refused(where, f"is encrypted ({name})")
        if S_ISLNK(member.external_attr >> 16):
            raise _refused(where, f"holds {name}, which is a link")
        if name in seen:
            raise _refused(where, f"holds {name} twice")
        if name.lower().endswith(UNKNOWN_COMPRESSED) or is_tar(name) or is_foreign(kind, name):
            raise _refused(where, f"holds {name}, which by its name is not {kind}")
        if kind not in _WITHOUT_FOLDERS and any("=" in each for each in _names(name)[:-1]):
            raise _refused(where, f"holds {name}, whose folder names a column, which is not read")
        seen.add(name)
    total = sum(member.file_size for member in members)
    if total > HARMLESS and total > LARGEST_RATIO * size:
        much = f"{total / 2**20:,.0f} MiB unpacked, more than {LARGEST_RATIO} times its size"
        raise _refused(where, f"would have {much}")


def _names(path: str) -> list[str]:
    r"""The names in a path, such as `./a/b` or `a\b`, that is not used as one; "" ends a folder."""
    return [name for name in re.split(r"[/\\]", path) if name not in (".", "..")] or [""]


def _refused(where: str, what: str) -> SourceError:
    return SourceError(
        f"{where} {what}. Nothing was loaded; repair or remove it, or land the files that are in "
        "it, and run again."
    )
