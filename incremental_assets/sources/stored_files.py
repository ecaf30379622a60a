"""The files of a stored source: which are data, and which format their names show."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from incremental_assets.delta_protocol.log_files import DELTA_LOG
from incremental_assets.errors import NothingThereError, SourceError
from incremental_assets.locations import local_path, not_in_a_table_path
from incremental_assets.sources.layout import COPYING
from incremental_assets.sources.source_file import SourceFile, not_readable
from incremental_assets.storage import answering, file_at, files_below, open_store, spark_path

Format = Literal["delta", "parquet", "orc", "avro", "json", "json_document", "csv"]
FORMATS: tuple[Format, ...] = get_args(Format)
FileFormat = Literal["parquet", "orc", "avro", "json", "json_document", "csv"]
FILE_FORMATS: tuple[FileFormat, ...] = get_args(FileFormat)
FeedFormat = FileFormat | Literal["xml"]
TEXT_FORMATS: tuple[Format | FeedFormat, ...] = ("json", "json_document", "csv", "xml")

_EXTENSIONS: dict[str, Format] = {
    ".parquet": "parquet",
    ".parq": "parquet",
    ".pq": "parquet",
    ".orc": "orc",
    ".avro": "avro",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
}
COMPRESSED = (".gz", ".bz2", ".zst", ".zstd")
# Spark takes these only as Hadoop frames them: any other Snappy file made it ask for all memory
# there is, or gave no row.
FRAMED_BY_HADOOP = (".deflate", ".lz4", ".snappy")
UNKNOWN_COMPRESSED = (".zip", ".xz", ".7z", ".z", ".br", ".lzo", *FRAMED_BY_HADOOP)
# What tar puts before a file would be read as the beginning of its first line.
_TAR_ENDINGS = (".tar", ".tgz", ".tbz", ".tbz2", ".txz", ".tzst")
_UNREAD_ENDINGS = frozenset({".tsv", ".xls", ".xlsx", ".xml"})
_EXAMPLES = 5
_BEGINNING = 4096  # bytes in which the first line of a file begins, unless blank lines precede it
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class DataFiles:
    """Files that are read together, and the folder that their paths are relative to."""

    root: str
    files: tuple[SourceFile, ...]

    def spark_paths(self) -> list[str]:
        """The files as Spark takes them."""
        return [spark_path(self.root, file.path) for file in self.files]

    def only(self, paths: Collection[str] | None) -> DataFiles:
        """Just these files. Raises ValueError if one of them is not there."""
        if paths is None:
            return self
        wanted = set(paths)
        unknown = sorted(wanted - {file.path for file in self.files})
        if unknown:
            raise ValueError(f"{self.root} was fixed without {named(unknown)}")
        return replace(self, files=tuple(f for f in self.files if f.path in wanted))

    def missing_or_changed(self) -> list[SourceFile]:
        """Which files are missing, or changed since they were listed."""
        local = local_path(self.root)
        if local is not None:
            now = {file.path: _on_disk(local, file.path) for file in self.files}
        elif len(self.files) == 1:
            now = {file.path: _in_store(self.root, file.path) for file in self.files}
        else:
            now = {file.path: file for file in _listed(self.root)}
        return [
            file for file in self.files if _fingerprint(now.get(file.path)) != _fingerprint(file)
        ]


@dataclass(frozen=True, slots=True)
class PathContents:
    """What is at a path: data files, or a Delta table."""

    data: DataFiles
    is_delta: bool = False


def path_contents(path: str) -> PathContents:
    """What is at a path. Raises SourceError if there is nothing, or if it cannot be listed."""
    try:
        local = local_path(path)
        return _list_on_disk(local) if local is not None else _list_in_store(path.rstrip("/"))
    except OSError as error:
        raise not_readable(error.filename or path, error) from error


def of_format(
    path: str, found: PathContents, wanted: Format | None
) -> tuple[Format | None, DataFiles]:
    """The format, and the files of it; None where there is no file to infer it from.

    With a format wanted, files whose names show another one are left out. Raises
    SourceError where the names show no format or several.
    """
    if found.is_delta or wanted == "delta":
        return _delta(path, found, wanted), found.data
    if wanted is not None:
        chosen = tuple(f for f in found.data.files if may_be_of(wanted, f.path))
    else:
        chosen = found.data.files
        wanted = _format_of_names(path, [file.path for file in chosen])
    if wanted in TEXT_FORMATS:
        _require_known_compression(path, [file.path for file in chosen])
    return wanted, replace(found.data, files=chosen)


def format_of(name: str) -> Format | None:
    """The format that a file's name shows; None if it shows none."""
    stem = _stem(name)
    return next((kind for ending, kind in _EXTENSIONS.items() if stem.endswith(ending)), None)


def _stem(name: str) -> str:
    """A file's name without the ending of its compression."""
    stem = name.lower()
    for ending in (*COMPRESSED, *UNKNOWN_COMPRESSED):
        stem = stem.removesuffix(ending)
    return stem


def is_tar(name: str) -> bool:
    """Whether a file's name shows a tar archive, which nothing here unpacks."""
    return _stem(name).endswith(_TAR_ENDINGS)


def may_be_of(wanted: Format | FeedFormat, name: str) -> bool:
    """Whether a file of that name may be of a format: it shows none, or that one."""
    shown = format_of(name)
    return shown in (wanted, None) or (wanted == "json_document" and shown == "json")


def is_foreign(wanted: FeedFormat, name: str) -> bool:
    """Whether a file's name shows another format, also one that is not read by its name."""
    others = _UNREAD_ENDINGS - {f".{wanted}", ".tsv" if wanted == "csv" else ""}
    return not may_be_of(wanted, name) or _stem(name).endswith(tuple(others))


def first_line(root: str, path: str) -> bytes:
    """The first line of a text file that is not blank, or its beginning.

    Empty where it is not known: the file is in a store, packed in another way than gzip, cannot be
    read, or begins with nothing but blank lines.
    """
    folder, name = local_path(root), path.lower()
    if folder is None or is_tar(name) or name.endswith((*UNKNOWN_COMPRESSED, *COMPRESSED[1:])):
        return b""
    try:
        with (gzip.open if name.endswith(".gz") else open)(folder / path, "rb") as file:
            begins: bytes = file.read(_BEGINNING)
    except (OSError, EOFError, zlib.error):  # the load reports it
        return b""
    line, *_ = begins.removeprefix(_BYTE_ORDER_MARK).lstrip().splitlines() or [b""]
    return line


def named(names: Sequence[str]) -> str:
    """A few names, for a message."""
    more = f", … ({len(names)} in all)" if len(names) > _EXAMPLES else ""
    return ", ".join(names[:_EXAMPLES]) + more


def _list_on_disk(path: Path) -> PathContents:
    path = Path(os.path.abspath(path.expanduser()))
    if path.is_file():
        if _hidden(path.name):
            # Spark would read it as if it were empty.
            raise SourceError(
                f"{path}: Spark reads no file whose name begins with '.' or '_', or ends with "
                f"'{COPYING}'. Rename it, and run again."
            )
        file = _on_disk(path.parent, path.name)
        return PathContents(DataFiles(str(path.parent), (file,) if file else ()))
    if not path.is_dir():
        raise _missing(str(path))
    if (path / DELTA_LOG).is_dir():
        return _delta_table(str(path))
    return _folder(str(path))


def _list_in_store(path: str) -> PathContents:
    store, inside = open_store(path)
    with answering(path):
        if store.isfile(inside):
            folder, _, name = path.rpartition("/")
            file = _in_store(folder, name)
            return PathContents(DataFiles(folder, (file,) if file else ()))
        if store.isdir(f"{inside}/{DELTA_LOG}"):
            return _delta_table(path)
        if not store.isdir(inside):
            raise _missing(path)
    return _folder(path)


def _delta_table(path: str) -> PathContents:
    if wrong := not_in_a_table_path(path):
        raise SourceError(
            f"{path} is a Delta table, and delta-rs cannot open one whose path holds {wrong!r}. "
            "Nothing was loaded; rename the folder, or name a link to it as the path, and run "
            "again."
        )
    return PathContents(DataFiles(path, ()), is_delta=True)


def _folder(path: str) -> PathContents:
    logs: set[str] = set()

    def skip(name: str) -> bool:
        if name == DELTA_LOG:
            logs.add(name)
        return _hidden(name)

    files = _listed(path, skip)
    if logs:
        raise SourceError(
            f"{path} is not a table, but folders below it are Delta tables; read as plain files, "
            "they would give rows that were deleted. Pass the path of one of the tables."
        )
    return PathContents(DataFiles(path, files))


def _hidden(name: str) -> bool:
    """What Spark skips silently: but for `_a=b`, a partition column's folder."""
    begins = name.startswith(".") or (name.startswith("_") and "=" not in name)
    return begins or name.endswith(COPYING)


def _listed(folder: str, skip: Callable[[str], bool] = _hidden) -> tuple[SourceFile, ...]:
    return tuple(SourceFile.of(file) for file in files_below(folder, skip))


def _on_disk(root: Path, path: str) -> SourceFile | None:
    try:
        stat = (root / path).stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise not_readable(str(root / path), error) from error
    return SourceFile(path, stat.st_size, "", str(stat.st_mtime_ns))


def _in_store(root: str, path: str) -> SourceFile | None:
    file = file_at(root, path)
    return SourceFile.of(file) if file is not None else None


def _fingerprint(file: SourceFile | None) -> tuple[int, str] | None:
    """What differs between two states of a file: the time on a disk, the tag in a store."""
    return (file.size, file.modified or file.tag) if file else None


def _delta(path: str, found: PathContents, wanted: Format | None) -> Format:
    if not found.is_delta:
        raise SourceError(
            f"{path} is no Delta table: it has no folder {DELTA_LOG}. Correct the path, or pass "
            "the source_format that the files have."
        )
    if wanted not in (None, "delta"):
        raise SourceError(
            f"{path} is a Delta table; read as {wanted}, it would give rows that were deleted. "
            'Pass source_format="delta", or leave it out.'
        )
    return "delta"


def _format_of_names(path: str, names: Sequence[str]) -> Format | None:
    examples = {format_of(name): name for name in reversed(names)}
    if len(examples) == 1:
        kind = next(iter(examples))
        if kind is not None:
            return kind
    if not examples:
        return None
    several = len(examples.keys() - {None}) > 1
    found = "files of several formats" if several else "files whose names show no format"
    raise SourceError(
        f"{path} holds {found}, such as {named(sorted(examples.values()))}. Pass source_format "
        "(parquet, orc, avro, json or csv): files whose names show another format are then left "
        "out."
    )


def _require_known_compression(path: str, names: Sequence[str]) -> None:
    for name in names:
        if name.lower().endswith(UNKNOWN_COMPRESSED) or is_tar(name):
            raise SourceError(
                f"{path}: {name} is packed in a way that Spark cannot read here. Store it "
                f"plain or as one of {', '.join(COMPRESSED)}."
            )


def _missing(path: str) -> SourceError:
    return NothingThereError(
        f"There is nothing at {path}. Nothing was loaded; correct the path of the source, or put "
        "the data there (an object store has no empty folders), and run again."
    )
