"""Whether files are still what was listed, and can be of their format, without Spark."""

from __future__ import annotations

from pathlib import Path

from incremental_assets.errors import SourceError
from incremental_assets.locations import local_path
from incremental_assets.plurals import counted
from incremental_assets.sources.source_file import not_readable
from incremental_assets.sources.stored_files import (
    COMPRESSED,
    DataFiles,
    Format,
    named,
)

_PARQUET = b"PAR1"
_ENCRYPTED_PARQUET = b"PARE"
_MAGIC = 4
_NOT_TEXT = {
    b"\x1f\x8b": "is compressed, though its name does not end in .gz",
    b"\xff\xfe": "is UTF-16, not UTF-8",
    b"\xfe\xff": "is UTF-16, not UTF-8",
    _PARQUET: "is a Parquet file",
}


def require_as_fixed(data: DataFiles, kind: Format) -> None:
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
        what = _not_parquet(path) if kind == "parquet" else _not_text(path)
        if what:
            raise SourceError(
                f"{path} {what}, and should be {kind}. Nothing was loaded; repair or "
                "remove the file, or pass the right source_format, and run again."
            )


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
    try:
        with path.open("rb") as stream:
            start = stream.read(_MAGIC)
    except OSError as error:
        raise not_readable(str(path), error) from error
    return next((what for magic, what in _NOT_TEXT.items() if start.startswith(magic)), "")
