"""Change detector for change logs: what is new in a log is what has not been read yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from incremental_assets.changes.detector import Detector
from incremental_assets.changes.operations import Operation
from incremental_assets.changes.watermark import Advance, Seen, checked, furthest


@dataclass(frozen=True)
class ChangeLog(Detector):
    """The files, or the commits of a Delta table, that have not been read yet.

    Not what has a higher number: an event that is written late with a lower number still counts,
    and is put in its place. `operation` and `sequence` are the columns of a flat log; they are of
    the log and not of the row, so they do not come into the target. `operations` adds words of
    one's own. `ChangeLog.debezium()` reads Debezium's envelopes, which need neither.

    `time` is the field of a flat log's row that says when it changed, for a history that is
    measured in time. Under Debezium it makes a line without an envelope count, too: as the row as
    it was from that moment on. So land the rows of a connector that unwraps its messages and adds
    nothing, or of a feed that never had a log; such lines tell of no deletes, and a log has either
    kind, not both.
    """

    name: ClassVar[str] = "change log"
    is_log: ClassVar[bool] = True
    finds_deletes: ClassVar[bool] = True

    operation: str = "operation"
    sequence: str = "sequence_num"
    operations: Mapping[str, Operation] = field(default_factory=dict)
    envelope: Literal["flat", "debezium"] = "flat"
    watermark: Advance | None = None
    time: str = ""

    @classmethod
    def debezium(cls, watermark: Advance | None = None, time: str = "") -> ChangeLog:
        """Debezium's change events, with or without the schema wrapper."""
        return cls("", "", envelope="debezium", watermark=watermark, time=time)

    def next_watermark(self, before: Any, seen: Seen) -> Any:
        """The watermark after a load, for people: what is new does not depend on it."""
        return (self.watermark or furthest)(before, seen)

    def advanced(self, before: Any, seen: Seen) -> Any:
        """The next watermark, checked. Raises WatermarkError."""
        name = self.sequence or "the log position"
        return checked(name, before, self.next_watermark(before, seen), seen)
