"""Files of a lake or a landing, on this machine's disk or in an object store."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from incremental_assets.errors import SettingsError
from incremental_assets.settings import local_path

_GLOB = str.maketrans({c: f"\\{c}" for c in "{}[]*?\\"})


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file below a folder: its path relative to it, bytes, milliseconds since 1970."""

    path: str
    size: int
    modified: int


def spark_path(root: str, relative: str) -> str:
    """A file's path as Spark takes it: never as a pattern."""
    local = local_path(root)
    prefix = f"file://{local}" if local is not None else root
    return f"{prefix}/{relative}".translate(_GLOB)


def files_below(folder: str) -> list[StoredFile]:
    """Every file below a folder; none where there is no folder."""
    local = local_path(folder)
    found = _walk(local, local) if local is not None else _find(folder)
    return sorted(found, key=lambda file: file.path)


def open_file(path: str) -> IO[bytes]:
    """A file for reading."""
    local = local_path(path)
    if local is not None:
        return local.open("rb")
    store, inside = open_store(path)
    opened: IO[bytes] = store.open(inside, "rb")
    return opened


def folders_in(folder: str) -> list[str]:
    """The names of the folders in a folder."""
    local = local_path(folder)
    if local is not None:
        return sorted(each.name for each in os.scandir(local) if each.is_dir())
    store, inside = open_store(folder)
    found = store.ls(inside, detail=True) if store.exists(inside) else []
    names = (each["name"].rstrip("/") for each in found if each["type"] == "directory")
    return sorted(name.rsplit("/", 1)[-1] for name in names)


def remove(path: str) -> None:
    """Remove a file, or a folder and what is in it; what is not there is no error."""
    local = local_path(path)
    if local is None:
        store, inside = open_store(path)
        if store.exists(inside):
            store.rm(inside, recursive=True)
    elif local.is_dir():
        shutil.rmtree(local, ignore_errors=True)
    else:
        local.unlink(missing_ok=True)


def _walk(root: Path, folder: Path) -> Iterator[StoredFile]:
    if not folder.is_dir():
        return
    for entry in os.scandir(folder):
        if entry.is_dir():
            yield from _walk(root, Path(entry.path))
        else:
            stat = entry.stat()
            path = Path(entry.path).relative_to(root).as_posix()
            yield StoredFile(path, stat.st_size, stat.st_mtime_ns // 1_000_000)


def _find(folder: str) -> Iterator[StoredFile]:
    store, root = open_store(folder)
    for path, info in store.find(root, detail=True).items():
        modified = info.get("LastModified") or info.get("mtime")
        stamp = int(modified.timestamp() * 1000) if hasattr(modified, "timestamp") else 0
        yield StoredFile(path.removeprefix(root).lstrip("/"), int(info.get("size") or 0), stamp)


def open_store(location: str) -> tuple[Any, str]:
    """The client of an object store, and the location inside it. Raises SettingsError."""
    import fsspec  # deferred: local files do not need it

    try:
        store, path = fsspec.core.url_to_fs(location, use_listings_cache=False)
    except (ImportError, ValueError) as error:
        raise SettingsError(
            f"{location}: no client for this kind of store is installed ({error})."
        ) from error
    return store, str(path).rstrip("/")
