"""Files of a lake or a landing, on this machine's disk or in an object store."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from operator import attrgetter
from secrets import token_hex
from stat import S_ISDIR, S_ISREG
from typing import IO, Any, NamedTuple
from urllib.parse import urlsplit

from incremental_assets.errors import SettingsError
from incremental_assets.locations import local_path
from incremental_assets.retries import retried

# The names under which stores give what changes with a file's content.
_TAGS = ("ETag", "etag", "md5Hash", "content_md5", "checksum", "generation", "versionId")
# The names of the time of its last change; last, that of a file which is only ever replaced.
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "modified", "created")
_SIGNS = "{}[]*?\\"
_GLOB = str.maketrans({c: f"\\{c}" for c in _SIGNS})
_LISTINGS = 3


class StoredFile(NamedTuple):
    """A file below a folder: its path relative to it, bytes, nanoseconds since 1970.

    `tag` is the store's own tag of the content; a local disk has none.
    """

    path: str
    size: int
    modified: int
    tag: str = ""


_PATH = attrgetter("path")
# What the fsspec client of a store calls the type of an object.
_CONTENT_TYPE = {"s3": "ContentType", "s3a": "ContentType", "gs": "content_type"}


def _nothing(name: str) -> bool:
    return not name


@contextmanager
def answering(location: str) -> Iterator[None]:
    """Raises OSError where a store's client raises its own error for a missing answer."""
    try:
        yield
    except _client_errors() as error:
        raise OSError(
            errno.EHOSTUNREACH, f"no answer from the store ({error})", location
        ) from error


def _client_errors() -> tuple[type[Exception], ...]:
    """Of the clients that are loaded, those that are no OSError."""
    botocore = sys.modules.get("botocore.exceptions")
    return (botocore.BotoCoreError,) if botocore is not None else ()


def spark_folder(path: str) -> str:
    """A folder as Spark writes it, whatever the default file system of its cluster is."""
    local = local_path(path)
    return f"file://{local}" if local is not None else path


def spark_path(root: str, relative: str) -> str:
    """A file's path, or its URI, as Spark takes it: never as a pattern."""
    if "://" in relative:
        return relative.translate(_GLOB)
    return f"{spark_folder(root)}/{relative}".translate(_GLOB)


def why_unfindable(path: str) -> str:
    """Why no reader finds a file, whatever it holds; "" where one does."""
    if not path.isascii() and not _is_text(path):
        return "the name is not UTF-8, so no reader finds the file"
    names = path.partition("://")[2] or path
    if ":" not in names:
        return ""
    if any(sign in names for sign in _SIGNS):
        return f"Spark reads no path that holds a colon and one of the signs {_SIGNS}"
    if ":" in names.rpartition("/")[2] and local_path(path) is not None:
        return "from a disk Spark reads no file with a colon in its name"
    return ""


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def files_below(folder: str, skip: Callable[[str], bool] = _nothing) -> list[StoredFile]:
    """Every file below a folder, without files and folders whose name is to be skipped.

    None where there is no folder. Raises OSError for what cannot be listed.
    """
    local = local_path(folder)
    if local is None:
        return sorted(_find(folder, skip), key=_PATH)
    return _listed(lambda: _walk(str(local), "", skip) if local.is_dir() else [])


def files_at(folder: str, path: str, skip: Callable[[str], bool] = _nothing) -> list[StoredFile]:
    """The file at a path below a folder, or every file below it where it is a folder.

    Their paths begin with this one. None where there is nothing. Raises OSError for what cannot be
    listed.
    """
    local = local_path(folder)
    if local is None:
        found = files_below(f"{folder}/{path}", skip)
        return [file._replace(path=f"{path}/{file.path}") for file in found]
    where = f"{local}/{path}"
    return _listed(lambda: _at(where, path, skip))


def file_at(root: str, path: str) -> StoredFile | None:
    """One file of an object store; None where it is not there."""
    store, inside = open_store(root)
    try:
        with answering(root):
            return _stored(path, store.info(f"{inside}/{path}"))
    except FileNotFoundError:
        return None


def open_file(path: str) -> IO[bytes]:
    """A file for reading."""
    local = local_path(path)
    if local is not None:
        return local.open("rb")
    store, inside = open_store(path)
    with answering(path):
        opened: IO[bytes] = store.open(inside, "rb")
        return opened


def names_in(folder: str) -> list[str]:
    """The names of what is in a folder; none where there is no such folder."""
    local = local_path(folder)
    if local is not None:
        return sorted(each.name for each in os.scandir(local)) if local.is_dir() else []
    store, inside = open_store(folder)
    with answering(folder):
        found = store.ls(inside, False) if store.isdir(inside) else []
    return sorted(name.rstrip("/").rsplit("/", 1)[-1] for name in found)


def folders_in(folder: str) -> list[str]:
    """The names of the folders in a folder."""
    local = local_path(folder)
    if local is not None:
        return sorted(each.name for each in os.scandir(local) if each.is_dir())
    store, inside = open_store(folder)
    with answering(folder):
        found = store.ls(inside, detail=True) if store.exists(inside) else []
    names = (each["name"].rstrip("/") for each in found if each["type"] == "directory")
    return sorted(name.rsplit("/", 1)[-1] for name in names)


def remove(path: str) -> None:
    """Remove a file, or a folder and what is in it; what is not there is no error."""
    local = local_path(path)
    if local is None:
        store, inside = open_store(path)
        with answering(path):
            if store.exists(inside):
                store.rm(inside, recursive=True)
    elif local.is_dir():
        shutil.rmtree(local, ignore_errors=True)
    else:
        local.unlink(missing_ok=True)


def prune(root: str, folder: str) -> None:
    """Remove a folder below a root if it is empty, and those above it; a store has no folders."""
    local = local_path(root)
    while local is not None and folder:
        try:
            (local / folder).rmdir()
        except OSError:
            return
        folder = folder.rpartition("/")[0]


def write_file(path: str, content: bytes, content_type: str = "") -> None:
    """Write a file atomically; its folder exists.

    With a `content_type` a browser shows it, where a store records the types of its objects.
    """
    local = local_path(path)
    if local is None:
        store, inside = open_store(path)
        named = _CONTENT_TYPE.get(urlsplit(path).scheme) if content_type else None
        store.pipe_file(inside, content, **({named: content_type} if named else {}))
    else:
        # Not the process: each container has one of the same number.
        unfinished = local.with_name(f".{local.name}.{token_hex(8)}")
        unfinished.write_bytes(content)
        unfinished.replace(local)


def create_file(path: str) -> IO[bytes]:
    """A new file for writing, in a folder that is created; it is there once it is closed."""
    local = local_path(path)
    if local is not None:
        local.parent.mkdir(parents=True, exist_ok=True)
        return local.open("wb")
    store, inside = open_store(path)
    with answering(path):
        opened: IO[bytes] = store.open(inside, "wb")
        return opened


def copy_file(path: str, to: str) -> None:
    """Copy a file to another path of the same kind, whose folders are created."""
    local, target = local_path(path), local_path(to)
    if local is None or target is None:
        store, inside = open_store(path)
        store.copy(inside, open_store(to)[1])
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(local, target)


def _listed(listing: Callable[[], list[StoredFile]]) -> list[StoredFile]:
    """What a disk holds, sorted; it is listed again where something was renamed meanwhile.

    To leave out what is gone would also leave out what it is called now. A link to a file that is
    not there stays an error.
    """
    return sorted(retried(listing, on=FileNotFoundError, tries=_LISTINGS), key=_PATH)


def _at(where: str, path: str, skip: Callable[[str], bool]) -> list[StoredFile]:
    try:
        stat = os.stat(where)  # noqa: PTH116 - as in `_walk`, no Path objects
    except (FileNotFoundError, NotADirectoryError):
        if os.path.islink(where):  # noqa: PTH114 - as in `_walk`
            raise
        return []
    if not S_ISDIR(stat.st_mode):
        return [_file(path, where, stat)]
    return _walk(where, f"{path}/", skip)


def _walk(folder: str, prefix: str, skip: Callable[[str], bool]) -> list[StoredFile]:
    """Text and no Path objects: a sensor lists a hundred thousand files at each tick."""
    found: list[StoredFile] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if skip(name):
                continue
            if entry.is_dir():
                found += _walk(entry.path, f"{prefix}{name}/", skip)
            else:
                found.append(_file(prefix + name, entry.path, entry.stat()))
    return found


def _file(path: str, where: str, stat: os.stat_result) -> StoredFile:
    """Raises OSError for a pipe, a socket or a device: who opens one may wait for ever."""
    if not S_ISREG(stat.st_mode):
        raise OSError(errno.EINVAL, "it is no file, but a pipe, a socket or a device", where)
    return StoredFile(path, stat.st_size, stat.st_mtime_ns)


def _find(folder: str, skip: Callable[[str], bool]) -> Iterator[StoredFile]:
    store, root = open_store(folder)
    try:
        with answering(folder):
            found = store.find(root, detail=True)
    except FileNotFoundError:
        return
    for path, info in found.items():
        relative = path.removeprefix(root).lstrip("/")
        if any(skip(part) for part in relative.split("/")):
            continue
        yield _stored(relative, info)


def _stored(path: str, info: Mapping[str, Any]) -> StoredFile:
    stamp = next((nanoseconds(info[key]) for key in _TIMES if info.get(key)), 0)
    tag = next((str(info[key]).strip('"') for key in _TAGS if info.get(key)), "")
    return StoredFile(path, int(info.get("size") or 0), stamp, tag)


def nanoseconds(moment: Any) -> int:
    """A store's time, a datetime, a number of seconds or ISO 8601 text, since 1970; 0 for none."""
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            return 0
    if isinstance(moment, datetime):
        moment = moment.timestamp()
    return int(moment * 1e9) if isinstance(moment, int | float) else 0


def open_store(location: str) -> tuple[Any, str]:
    """The client of an object store, and the location inside it. Raises SettingsError."""
    import fsspec  # deferred: local files do not need it

    try:
        store, path = fsspec.core.url_to_fs(location, use_listings_cache=False)
    except (ImportError, ValueError) as error:
        raise SettingsError(
            f"{location}: no client for this kind of store is installed ({error}). For S3 install "
            "incremental-assets with its extra `s3`."
        ) from error
    return store, str(path).rstrip("/")
