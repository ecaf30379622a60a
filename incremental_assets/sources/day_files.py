"""The files of a landing day as they were listed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import overload

from incremental_assets.file_identity import MODULUS, file_fingerprint
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.storage import StoredFile

_PATH = attrgetter("path")


class DayFiles(Sequence[SourceFile]):
    """The files of a landing day, by path.

    They become objects when they are asked for: of almost all days of a long landing a plan asks
    only for the fingerprint. `waits` are the reasons why files are not to be read yet, by their
    path below the feed's folder.
    """

    def __init__(
        self, feed: str, stored: Iterable[StoredFile], waits: Mapping[str, str] | None = None
    ) -> None:
        self._feed = feed
        self._stored = sorted(stored, key=_PATH)
        self._waits = waits or {}

    @cached_property
    def fingerprint(self) -> int:
        """A number for the files as they are, as `file_identity.fingerprint` has it."""
        return (
            sum(
                file_fingerprint(
                    f"{self._feed}/{path}", size, tag, "" if tag else str(modified or "")
                )
                for path, size, modified, tag in self._stored
            )
            % MODULUS
        )

    def __len__(self) -> int:
        return len(self._stored)

    @overload
    def __getitem__(self, at: int) -> SourceFile: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[SourceFile]: ...
    def __getitem__(self, at: int | slice) -> SourceFile | Sequence[SourceFile]:
        return self._files[at]

    @cached_property
    def _files(self) -> tuple[SourceFile, ...]:
        waits = self._waits
        return tuple(
            SourceFile.of(file, self._feed, waits.get(file.path, "")) for file in self._stored
        )
