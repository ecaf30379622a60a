"""What says that a delivery is complete: a marker in its folder, or a manifest of its files.

A manifest is JSON, a list of files or an object with one in `files`, or text, a name a line. A file
is a name, relative to the manifest's folder, or an object with a `path` and perhaps its `size` in
bytes and a digest (`md5`, `sha1`, `sha256`, `sha512`). A line of text may begin with a digest, as
`sha256sum` writes it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any

from incremental_assets.plurals import counted
from incremental_assets.sources.layout import is_hidden
from incremental_assets.storage import StoredFile, open_file

LARGEST = 16 * 2**20
"""Bytes of a manifest: a hundred thousand files have about ten million."""
_DIGESTS: Mapping[int, str] = {32: "md5", 40: "sha1", 64: "sha256", 128: "sha512"}
_SUMMED = re.compile(r"([0-9A-Fa-f]{32,128}) [ *](.+)")
_REMEMBERED = 10_000
_Reasons = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file that a manifest names; `size` in bytes, `digest` in hexadecimal by `algorithm`."""

    path: str
    size: int | None = None
    algorithm: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Signs:
    """The files in a folder that say whether it is complete: a marker, manifests, both or none.

    `manifest` is a pattern of names, in which `*` stands for any text.
    """

    marker: str = ""
    manifest: str = ""

    def __bool__(self) -> bool:
        return bool(self.marker or self.manifest)

    def skips(self, name: str) -> bool:
        """Whether a file or folder of that name is neither data nor a sign."""
        return is_hidden(name) and not self._are(name)

    def judged(
        self,
        where: str,
        place: str,
        files: Sequence[StoredFile],
        is_loaded: Callable[[str], bool],
    ) -> tuple[list[StoredFile], _Reasons]:
        """The data among all files of a place below `where`, and by path why some of them wait.

        A manifest that is not fulfilled is among them, and waits. Of a file that is loaded nothing
        but the size is compared, and it may be gone.
        """
        if not self:
            return list(files), {}
        data = [file for file in files if not self._are(_name(file.path))]
        found = [f for f in files if self._are(_name(f.path)) and _folder(f.path) == place]
        if self.marker and not any(_name(file.path) == self.marker for file in found):
            return data, {file.path: f"there is no {self.marker} in its folder" for file in data}
        if not self.manifest:
            return data, {}
        manifests = [file for file in found if _name(file.path) != self.marker]
        reasons = _by_manifests(where, data, manifests, is_loaded)
        for file in data:
            reasons.setdefault(file.path, f"no {self.manifest} in its folder names it")
        return [*data, *(m for m in manifests if m.path in reasons)], reasons

    def _are(self, name: str) -> bool:
        """Whether a file of that name is one of the signs, and not one that is being written."""
        if self.marker and name == self.marker:
            return True
        is_written = is_hidden(self.manifest) or not is_hidden(name)
        return bool(self.manifest) and is_written and fnmatchcase(name, self.manifest)


def _by_manifests(
    where: str,
    data: Sequence[StoredFile],
    manifests: Sequence[StoredFile],
    is_loaded: Callable[[str], bool],
) -> dict[str, str]:
    """By path why files wait, "" where they do not, and why manifests are not fulfilled."""
    there = {file.path: file for file in data}
    reasons: dict[str, str] = {}
    for manifest in manifests:
        try:
            named = _named_in(where, manifest)
        except ValueError as error:
            reasons[manifest.path] = f"it is no manifest: {error}"
            continue
        prefix = manifest.path.removesuffix(_name(manifest.path))
        paths = [prefix + file.path for file in named]
        wrong = list(_wrong(where, dict(zip(paths, named, strict=True)), there, is_loaded))
        if wrong:
            more = f", and {len(wrong) - 1:,} more" if len(wrong) > 1 else ""
            reasons[manifest.path] = wrong[0] + more
        for path in paths:
            if not wrong:
                reasons[path] = ""
            elif reasons.get(path) != "":
                reasons[path] = f"{_name(manifest.path)} waits: {reasons[manifest.path]}"
    return reasons


def _wrong(
    where: str,
    named: Mapping[str, NamedFile],
    there: Mapping[str, StoredFile],
    is_loaded: Callable[[str], bool],
) -> Iterator[str]:
    """What of a manifest is not as it says; digests are compared once all else is as it says."""
    is_wrong = False
    for path, file in named.items():
        found = there.get(path)
        if found is None and not is_loaded(path):
            is_wrong = True
            yield f"{file.path} is not there"
        elif found is not None and file.size is not None and found.size != file.size:
            is_wrong = True
            yield f"{file.path} has {counted(found.size, 'byte')}, and should have {file.size:,}"
    if is_wrong:
        return
    for path, file in named.items():
        found = there.get(path)
        if not file.digest or found is None or is_loaded(path):
            continue
        own = f"{where}/{path}", file.algorithm, found.size, found.modified, found.tag
        if _digest(*own) != file.digest.lower():
            yield f"{file.path} has another {file.algorithm}"


@lru_cache(_REMEMBERED)
def _digest(where: str, algorithm: str, *state: int | str) -> str:
    """The digest of a file; `state` is what tells that it has changed."""
    with open_file(where) as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()  # type: ignore[arg-type]


def _named_in(where: str, manifest: StoredFile) -> tuple[NamedFile, ...]:
    """The files that a manifest names. Raises ValueError for what is none."""
    if manifest.size > LARGEST:
        raise ValueError(f"it has more than {LARGEST // 2**20} MiB")
    return _content(f"{where}/{manifest.path}", manifest.size, manifest.modified, manifest.tag)


@lru_cache(_REMEMBERED)
def _content(where: str, *state: int | str) -> tuple[NamedFile, ...]:
    with open_file(where) as stream:
        return tuple(named_files(stream.read()))


def named_files(content: bytes) -> list[NamedFile]:
    """The files that the content of a manifest names. Raises ValueError for what is none."""
    text = content.decode("utf-8-sig").strip()
    if not text:
        raise ValueError("it is empty")
    if text[0] not in "[{":
        return [_line(line.strip()) for line in text.splitlines() if line.strip()]
    found = json.loads(text)
    if isinstance(found, dict):
        found = found.get("files")
    if not isinstance(found, list):
        raise ValueError('it has no list of "files"')  # noqa: TRY004 - of what it holds
    return [_entry(entry) for entry in found]


def _line(text: str) -> NamedFile:
    summed = _SUMMED.fullmatch(text)
    if summed is None or len(summed[1]) not in _DIGESTS:
        return NamedFile(_path(text))
    return NamedFile(_path(summed[2]), None, _DIGESTS[len(summed[1])], summed[1])


def _entry(entry: Any) -> NamedFile:
    if not isinstance(entry, dict):
        return NamedFile(_path(entry))
    path, size = _path(entry.get("path")), entry.get("size")
    if size is not None and (not isinstance(size, int) or isinstance(size, bool)):
        raise ValueError(f"the size of {path} is {size!r}")
    for algorithm in _DIGESTS.values():
        digest = entry.get(algorithm)
        if digest is not None:
            if not isinstance(digest, str):
                raise ValueError(f"the {algorithm} of {path} is {digest!r}")
            return NamedFile(path, size, algorithm, digest)
    return NamedFile(path, size)


def _path(text: Any) -> str:
    """A name of a file, relative to the folder of its manifest."""
    path = PurePosixPath(text) if isinstance(text, str) else None
    if path is None or not path.parts or path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{text!r} is no name of a file, relative to its folder")
    if any(map(is_hidden, path.parts)):
        raise ValueError(f"it names {text}, and such a name is no data")
    return str(path)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
