"""Manifests: which files a delivery has, by what its sender wrote.

A manifest is JSON, a list of files or an object with one in `files`, or text, a name a line. A file
is a name, relative to the manifest's folder, or an object with a `path` and perhaps its `size` in
bytes and digests (`md5`, `sha1`, `sha256`, `sha512`). A line of text may begin with a digest, as
`sha256sum` writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from reprlib import Repr
from typing import Any

LARGEST = 16 * 2**20
"""Bytes of a manifest: a hundred thousand files have about ten million."""
MOST_NAMED = 100_000
_DIGESTS: Mapping[int, str] = {32: "md5", 40: "sha1", 64: "sha256", 128: "sha512"}
_SUMMED = re.compile(r"([0-9A-Fa-f]{32,128}) [ *](.+)")
_TAGGED = re.compile(r"(MD5|SHA1|SHA256|SHA512) \((.+)\) = ([0-9A-Fa-f]{32,128})")
_LONGEST_NAME = 1024  # of an object in a store
_CLIPPED = Repr()
_CLIPPED.maxstring, _CLIPPED.maxlevel = 80, 2
_shown = _CLIPPED.repr


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file that a manifest names; `size` in bytes, `digests` of algorithms, in hexadecimal."""

    path: str
    size: int | None = None
    digests: tuple[tuple[str, str], ...] = ()


def named_files(content: bytes) -> list[NamedFile]:
    """The files that the content of a manifest names. Raises ValueError for what is none."""
    text = content.decode("utf-8-sig").strip()
    if not text:
        raise ValueError("it is empty")
    if text[0] not in "[{":
        return _each_once(_line(line.strip()) for line in text.splitlines() if line.strip())
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if isinstance(found, dict):
        found = found.get("files")
    if not isinstance(found, list):
        raise ValueError('it has no list of "files"')  # noqa: TRY004 - of what it holds
    return _each_once(map(_entry, found))


def _each_once(files: Iterable[NamedFile]) -> list[NamedFile]:
    """The files by their paths. Raises ValueError for two of one path that differ."""
    found: dict[str, NamedFile] = {}
    for file in files:
        if found.setdefault(file.path, file) != file:
            raise ValueError(f"it names {_shown(file.path)} twice, with another size or digest")
        if len(found) > MOST_NAMED:
            raise ValueError(f"it names more than {MOST_NAMED:,} files; write several manifests")
    return list(found.values())


def _line(text: str) -> NamedFile:
    tagged = _TAGGED.fullmatch(text)  # as `sha256sum --tag` has it
    if tagged is not None:
        return NamedFile(_path(tagged[2]), None, ((tagged[1].lower(), tagged[3].lower()),))
    summed = _SUMMED.fullmatch(text)
    if summed is None or len(summed[1]) not in _DIGESTS:
        return NamedFile(_path(text))
    return NamedFile(_path(summed[2]), None, ((_DIGESTS[len(summed[1])], summed[1].lower()),))


def _entry(entry: Any) -> NamedFile:
    if not isinstance(entry, dict):
        return NamedFile(_path(entry))
    path, size = _path(entry.get("path")), entry.get("size")
    if size is not None and (not isinstance(size, int) or isinstance(size, bool)):
        raise ValueError(f"the size of {_shown(path)} is {_shown(size)}")
    digests = []
    for key, digest in entry.items():
        if key.lower() in _DIGESTS.values() and digest is not None:
            if not isinstance(digest, str):
                raise ValueError(f"the {key} of {_shown(path)} is {_shown(digest)}")
            digests.append((key.lower(), digest.lower()))
    return NamedFile(path, size, tuple(digests))


def _path(text: Any) -> str:
    """A name of a file, relative to the folder of its manifest."""
    path = PurePosixPath(text) if _is_name(text) else None
    if path is None or not path.parts or path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{_shown(text)} is no name of a file, relative to its folder")
    return str(path)


def _is_name(text: Any) -> bool:
    if not isinstance(text, str) or len(text) > _LONGEST_NAME or "\0" in text:
        return False
    return not any("\ud800" <= sign <= "\udfff" for sign in text)  # halves of a sign, in JSON
