"""Whether files are still what was listed, and can be of their format, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from incremental_assets.errors import SourceError
from incremental_assets.locations import local_path
from incremental_assets.plurals import counted
from incremental_assets.sources.csv_format import RFC_4180, Csv
from incremental_assets.sources.source_file import not_readable
from incremental_assets.sources.stored_files import (
    COMPRESSED,
    DataFiles,
    Format,
    named,
)
from incremental_assets.sources.typed_rows import AVRO_MAGIC

_PARQUET = b"PAR1"
_ENCRYPTED_PARQUET = b"PARE"
_MAGIC = 4
_BEGINS: Mapping[str, bytes] = {"orc": b"ORC", "avro": AVRO_MAGIC}
_NOT_TEXT = {
    b"\x1f\x8b": "is compressed, though its name does not end in .gz",
    b"\xff\xfe": "is UTF-16, not UTF-8",
    b"\xfe\xff": "is UTF-16, not UTF-8",
    _PARQUET: "is a Parquet file",
    AVRO_MAGIC: "is an Avro file",
}


def require_as_fixed(data: DataFiles, kind: Format, csv: Csv = RFC_4180) -> None:
    """Raise SourceError if a local file vanished, changed, or cannot be what it should be.

    In an object store each check is a request, so there Spark raises the error when it reads.
    """
    local = local_path(data.root)
    if local is None:
        return
    lost = data.missing_or_changed()
    if lost:
        raise SourceError(
            f"{data.root}: {counted(len(lost), 'file')} vanished or changed after the listing: "
            f"{named([file.path for file in lost])}. Nothing was loaded; run again."
        )
    for file in data.files:
        path = local / file.path
        what = _other_than(kind, path, csv)
        if what:
            raise SourceError(
                f"{path} {what}, and should be {kind}. Nothing was loaded; repair or "
                "remove the file, or name the format that it has, and run again."
            )


def _other_than(kind: Format, path: Path, csv: Csv) -> str:
    """What shows that a file is not of its format; "" where nothing does."""
    if kind == "parquet":
        return _not_parquet(path)
    if kind in _BEGINS:
        return _begins_otherwise(path, kind)
    return _not_text(path) if csv.is_split_by_line else ""


def _begins_otherwise(path: Path, kind: Format) -> str:
    start = _first_bytes(path, _MAGIC)
    if start.startswith(_BEGINS[kind]):
        return ""
    return f"does not begin as a file of {kind} does" if start else "is empty"


def _not_parquet(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            start = stream.read(_MAGIC)
            stream.seek(max(0, path.stat().st_size - _MAGIC))
            end = stream.read(_MAGIC)
    except OSError as error:
        raise not_readable(str(path), error) from error
    if start == end and end in (_PARQUET, _ENCRYPTED_PARQUET):
        return ""
    return "does not begin and end as a Parquet file does" if start else "is empty"


def _not_text(path: Path) -> str:
    if path.name.lower().endswith(COMPRESSED):
        return ""
    start = _first_bytes(path, _MAGIC)
    return next((what for magic, what in _NOT_TEXT.items() if start.startswith(magic)), "")


def _first_bytes(path: Path, number: int) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(number)
    except OSError as error:
        raise not_readable(str(path), error) from error
