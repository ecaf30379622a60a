"""Change detector for landed files: which are new, and which changed after they were loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

from incremental_assets.changes.detector import Detector
from incremental_assets.file_identity import FileLike, is_as_listed

F = TypeVar("F", bound=FileLike)


@dataclass(frozen=True, slots=True)
class Files(Detector):
    """Files are known by path, size and tag, never by modification time alone.

    The tag is the store's own, or a digest of the content where a store or a disk has none.
    A file whose size and modification time are as they were is taken as unchanged without
    reading it; one whose time changed is compared by its tag. A known file that is missing is
    no change: it may have been archived.
    """

    name: ClassVar[str] = "files"

    def new_and_changed(
        self,
        listed: Sequence[F],
        known: Mapping[str, FileLike],
        tagged: Callable[[F], F],
    ) -> tuple[list[F], list[F]]:
        """Split what is listed into new files and changed ones, each with its tag.

        `known` are the files as they were loaded, by path; `tagged` gives a file its tag, which
        may mean reading it.
        """
        new: list[F] = []
        changed: list[F] = []
        for file in listed:
            before = known.get(file.path)
            if before is None:
                new.append(tagged(file))
            elif not is_as_listed(file, before):
                now = tagged(file)
                if (now.size, now.tag) != (before.size, before.tag):
                    changed.append(now)
        return new, changed
