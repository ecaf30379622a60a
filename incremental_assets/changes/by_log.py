"""Change detector for change logs: what is new in a log is what has not been read yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from incremental_assets.changes.operations import Operation
from incremental_assets.changes.watermark import Advance, Seen, checked, furthest


@dataclass(frozen=True)
class ChangeLog:
    """The files, or the commits of a Delta table, that have not been read yet.

    Not what has a higher number: an event that is written late with a lower number still counts,
    and is put in its place. `operation` and `sequence` are the columns of a flat log; they are of
    the log and not of the row, so they do not come into the target. `operations` adds words of
    one's own. `ChangeLog.debezium()` reads Debezium's envelopes, which need neither.
    """

    operation: str = "operation"
    sequence: str = "sequence_num"
    operations: Mapping[str, Operation] = field(default_factory=dict)
    envelope: Literal["flat", "debezium"] = "flat"
    watermark: Advance | None = None

    @classmethod
    def debezium(cls, watermark: Advance | None = None) -> ChangeLog:
        """Debezium's change events, with or without the schema wrapper."""
        return cls(operation="", sequence="", envelope="debezium", watermark=watermark)

    def next_watermark(self, before: Any, seen: Seen) -> Any:
        """The watermark after a load, for people: what is new does not depend on it."""
        return (self.watermark or furthest)(before, seen)

    def advanced(self, before: Any, seen: Seen) -> Any:
        """The next watermark, checked. Raises WatermarkError."""
        name = self.sequence or "the log position"
        return checked(name, before, self.next_watermark(before, seen), seen)
