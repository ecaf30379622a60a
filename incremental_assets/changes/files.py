"""Change detector for landed files: which are new, and which changed after they were loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from incremental_assets.changes.detector import Detector


@dataclass(frozen=True, slots=True)
class Files(Detector):
    """Landed files whose rows are all there is: new rows are those of new and changed files.

    They are known by path, size and tag (`new_and_changed`), and a subclass may decide otherwise.
    """

    name: ClassVar[str] = "files"
