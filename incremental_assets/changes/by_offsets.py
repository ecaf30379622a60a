"""Change detector for topics whose messages are rows: each has an offset, and is read once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from incremental_assets.changes.detector import Detector


@dataclass(frozen=True, slots=True)
class Offsets(Detector):
    """Every message is a row of its own, also one that equals another.

    What is new are the messages behind the offsets that were read. For topics of events; a topic
    of changes to rows is read by `ChangeLog`.
    """

    name: ClassVar[str] = "offsets"
    reads_once: ClassVar[bool] = True
    needs_offsets: ClassVar[bool] = True
