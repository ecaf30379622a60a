"""What shows that a delivery is complete: a marker in its folder, or a manifest of its files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from incremental_assets.file_identity import FileLike
from incremental_assets.plurals import counted
from incremental_assets.sources.layout import COPYING, is_hidden
from incremental_assets.sources.loaded_files import is_as_loaded
from incremental_assets.sources.manifests import LARGEST, NamedFile, named_files
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.storage import StoredFile, answering, open_file

_MOST_DIGESTS, _MOST_MANIFESTS = 100_000, 10_000
_WhyWaiting = Mapping[str, str]
_LoadedFileAt = Callable[[str], FileLike | None]
_Unquiet = Callable[[StoredFile], str]


@dataclass(frozen=True, slots=True)
class Signs:
    """The files in a folder that show whether it is complete: a marker, manifests, both or none.

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
        known: _LoadedFileAt,
        unquiet: _Unquiet,
    ) -> tuple[list[StoredFile], _WhyWaiting]:
        """The data among all files of a place below `where`, and by path why some of them wait.

        Signs lie directly in the place. A manifest that is not fulfilled is among the files, and
        waits, also where `unquiet` gives why it may still be written. `known` gives a file as it
        was loaded, and it may be gone. Where all of the data is as it was loaded, nothing waits,
        and no manifest is read.
        """
        if not self:
            return list(files), {}
        prefix = f"{place}/"
        signs = {f.path: f for f in files if self._are(f.path.removeprefix(prefix))}
        data = [
            file
            for file in files
            if file.path not in signs
            and not _is_below_hidden(file.path)
            and not (self.marker and file.path.endswith(f"/{self.marker}"))
        ]
        if self.marker and prefix + self.marker not in signs:
            return data, {file.path: f"there is no {self.marker} in its folder" for file in data}
        if not self.manifest:
            return data, {}
        if data and all(is_as_loaded(SourceFile.of(f), known(f.path)) for f in data):
            return data, {}
        manifests = [file for file in signs.values() if file.path != prefix + self.marker]
        delivery = _DeliveredFiles(where, prefix, {f.path: f for f in data}, signs, known)
        reasons = delivery.reasons(manifests, unquiet)
        for file in data:
            reasons.setdefault(file.path, f"no {self.manifest} in its folder names it")
        return [*data, *(m for m in manifests if m.path in reasons)], reasons

    def _are(self, name: str) -> bool:
        """Whether a file of that name is one of the signs, and not one that is being written."""
        if self.marker and name == self.marker:
            return True
        if not self.manifest or "/" in name or name.endswith(COPYING):
            return False
        is_written = is_hidden(self.manifest) or not is_hidden(name)
        return is_written and fnmatchcase(name, self.manifest)


@dataclass(frozen=True, slots=True)
class _DeliveredFiles:
    """The files of a place, whose path with a slash is `prefix`."""

    where: str
    prefix: str
    data: Mapping[str, StoredFile]
    signs: Mapping[str, StoredFile]
    known: _LoadedFileAt

    def reasons(self, manifests: Sequence[StoredFile], unquiet: _Unquiet) -> dict[str, str]:
        """By path why files wait, "" where they do not, and why manifests are not fulfilled."""
        reasons: dict[str, str] = {}
        for manifest in manifests:
            why = unquiet(manifest)
            named: tuple[NamedFile, ...] = ()
            try:
                named = _named_in(self.where, manifest)
            except FileNotFoundError:  # since it was listed
                why = why or "it is no longer there"
            except ValueError as error:
                why = why or f"it is no manifest: {error}"
            if not why:
                wrong = self._wrong(named)
                more = f", and {len(wrong) - 1:,} more" if len(wrong) > 1 else ""
                why = wrong[0] + more if wrong else ""
            if why:
                reasons[manifest.path] = why
            name = manifest.path.removeprefix(self.prefix)
            for each in named:
                path = self.prefix + each.path
                if path in self.signs:
                    continue
                if not why:
                    reasons[path] = ""
                elif reasons.get(path) != "":
                    reasons[path] = f"{name} waits: {why}"
        return reasons

    def _wrong(self, named: Sequence[NamedFile]) -> list[str]:
        """What differs from a manifest; digests are compared once all else agrees with it.

        Where all files are as they were loaded, their digests are not compared.
        """
        wrong = [why for why in map(self._why_not, named) if why]
        found = [(self.data.get(self.prefix + file.path), file) for file in named]
        there = [(stored, file) for stored, file in found if stored is not None]
        if wrong or all(is_as_loaded(SourceFile.of(f), self.known(f.path)) for f, _ in there):
            return wrong
        return [why for stored, file in there for why in self._other_digests(stored, file)]

    def _why_not(self, file: NamedFile) -> str:
        """Why a file that is named is not there, or of another size; "" where it is as it should.

        A sign that is named, such as the manifest itself by `sha256sum *`, has to be there alone.
        """
        path = self.prefix + file.path
        found = self.data.get(path)
        if found is not None:
            if file.size in (None, found.size):
                return ""
            size = counted(found.size, "byte")
            return f"{file.path} has {size}, and should have {file.size:,}"
        if path in self.signs:
            return ""
        if _is_below_hidden(file.path):
            return f"it names {file.path}, and such a name is no data"
        return "" if self.known(path) is not None else f"{file.path} is not there"

    def _other_digests(self, stored: StoredFile, file: NamedFile) -> Iterator[str]:
        for algorithm, digest in file.digests:
            try:
                if _digest(self.where, stored, algorithm) != digest:
                    yield f"{file.path} has another {algorithm}"
            except FileNotFoundError:  # since it was listed
                yield f"{file.path} is not there"
                return


@lru_cache(maxsize=_MOST_DIGESTS)
def _digest(where: str, file: StoredFile, algorithm: str) -> str:
    with answering(path := f"{where}/{file.path}"), open_file(path) as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()  # type: ignore[arg-type]


@lru_cache(maxsize=_MOST_MANIFESTS)
def _named_in(where: str, manifest: StoredFile) -> tuple[NamedFile, ...]:
    """The files that a manifest names. Raises ValueError for what is none."""
    if manifest.size > LARGEST:
        raise ValueError(f"it has more than {LARGEST // 2**20} MiB")
    with answering(path := f"{where}/{manifest.path}"), open_file(path) as stream:
        return tuple(named_files(stream.read()))


def _is_below_hidden(path: str) -> bool:
    return any(map(is_hidden, path.split("/")))
