"""What may be asked of a change detector without knowing which one it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Detector:
    """Base of the change detectors.

    `name` is what the ledger calls it. `is_log`: what it finds are events of a log. `is_snapshot`:
    it compares whole snapshots. Both find deletes beside inserts and updates.
    """

    name: ClassVar[str]
    is_log: ClassVar[bool] = False
    is_snapshot: ClassVar[bool] = False
    finds_deletes: ClassVar[bool] = False
