"""Where files and tables are: on this machine's disk, or in an object store."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from incremental_assets.errors import SettingsError

# delta-rs looks for the table elsewhere, or not at all: it decodes what is percent-encoded.
_NOT_IN_A_LAKE = re.compile(r"[\[\]^|\\]|%[0-9A-Fa-f]{2}")
_STORES = ("s3", "s3a", "gs", "abfs", "abfss", "hdfs")
"""The schemes for which fsspec, delta-rs and Spark all have a client."""
_PLAIN_ROOT = re.compile(r"/(?!/)")


def local_path(location: str) -> Path | None:
    """The path of a location on this machine's disk; None for an object store."""
    if urlsplit(location).scheme != "file":
        return None if "://" in location else Path(location)
    path = location.partition(":")[2]  # as it is: a URI's `?` and `#` are good names of files
    if path.startswith("//"):
        host, _, inside = path[2:].partition("/")
        if host in ("", "localhost"):
            return Path(f"/{inside}")
    return Path(path)


def location(name: str, value: str) -> str:
    """A path or URI, checked and made absolute. Raises SettingsError that names the setting."""
    if not value.strip():
        raise SettingsError(f"{name} is {value!r}; expected a path, or the URI of an object store.")
    if any(ord(c) < 32 for c in value) or "`" in value:
        raise SettingsError(
            f"{name} holds a back quote or a control character: {value!r}. "
            "Give a plain path or URI."
        )
    path = local_path(value)
    if path is not None and value.startswith("file:") and not _PLAIN_ROOT.match(str(path)):
        raise SettingsError(
            f"{name} is {value!r}; a file URI is absolute and names no other machine: "
            "file:///data/lake. Files of another machine are reached where they are mounted."
        )
    if path is not None:
        return str(Path(os.path.abspath(expanded(name, path))))
    found = urlsplit(value)
    if found.scheme not in _STORES:
        *others, last = (f"{scheme}://" for scheme in _STORES)
        raise SettingsError(
            f"{name} is {value!r}; expected a path, or a URI of {', '.join(others)} or {last}, "
            "which the lake's three clients can reach."
        )
    of_default_host = found.scheme == "hdfs" and found.path.strip("/")
    if not (found.netloc or of_default_host):
        host = "host" if found.scheme == "hdfs" else "bucket"
        raise SettingsError(
            f"{name} is {value!r}, which names no {host}: expected {found.scheme}://{host}/lake. A "
            "variable that it was made of may be empty."
        )
    return value.rstrip("/")


def expanded(name: str, path: Path) -> Path:
    """A path whose `~` is the home of its user. Raises SettingsError that names the setting."""
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise SettingsError(
            f"{name} is {str(path)!r}, and there is no such user with a home directory on this "
            "machine. Give an absolute path."
        ) from error


def table_location(name: str, value: str) -> str:
    """The same for a place of Delta tables. Raises SettingsError."""
    place = location(name, value)
    if wrong := not_in_a_table_path(place):
        raise SettingsError(
            f"{name} is {place!r}: delta-rs cannot open a table whose path holds {wrong!r}. "
            "Choose another folder."
        )
    return place


def not_in_a_table_path(place: str) -> str:
    """The first signs of a path for which delta-rs cannot open a Delta table there; "" without."""
    found = _NOT_IN_A_LAKE.search(place)
    return found.group() if found else ""
