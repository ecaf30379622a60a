"""Change detector for snapshots: one against the one before it.

The snapshot before is stored as a Delta table of its own, with the hash of each row. It moves on
just before the target is committed: if the load dies in between, settling puts it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import reduce
from typing import Any, ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.changes.as_read import AsRead, require_as_it_was_read
from incremental_assets.changes.bronze_events import Events, snapshot_events
from incremental_assets.changes.detector import Detector, NewRows, SourceWindow
from incremental_assets.changes.inspection import Inspection
from incremental_assets.changes.late_snapshot import late_changes
from incremental_assets.changes.position import Position
from incremental_assets.changes.request import ReadRequest
from incremental_assets.changes.snapshot_changes import (
    CHANGE,
    IN_SCOPE,
    QUARANTINED,
    SHOWN,
    marked,
    previous_snapshot,
    refuse_duplicates,
    restore_snapshot,
    snapshot_changes,
    stage_snapshot,
    with_scope,
)
from incremental_assets.changes.snapshot_comparison import SnapshotComparison
from incremental_assets.changes.source_rows import (
    own_types,
    require_columns,
    require_no_lines,
    unseen,
    with_order,
)
from incremental_assets.changes.watermark import (
    Advance,
    Seen,
    as_text,
    checked,
    furthest,
    instant,
)
from incremental_assets.choices import require_function
from incremental_assets.delta.columns import DELETED, HASH
from incremental_assets.delta.staged_write import SideRows, SideWrite
from incremental_assets.errors import DefinitionError, SnapshotError
from incremental_assets.frames import Frames, quoted
from incremental_assets.plurals import counted
from incremental_assets.quality.gate import Counted, Value
from incremental_assets.quality.reasons import is_good
from incremental_assets.quality.rule import Severity
from incremental_assets.row_hash import HASH_VERSION, row_hash

_KEYLESS = "rows without a readable key: no delete is derived from this snapshot"


@dataclass(frozen=True)
class SnapshotDiff(Detector):
    """Inserts, updates and deletes between two snapshots of a table, by a hash of each row.

    A change in the columns `ignore` is no change. A snapshot that would delete a larger share of
    the rows before than `max_deleted_share` (0 to 1) is held back, for half a snapshot looks just
    like that.

    `scope` are columns that name the part of the table that a snapshot is, such as a region or
    a day: it covers the values of them that its rows have, and a row of any other value is neither
    deleted nor counted for the share.
    """

    name: ClassVar[str] = "snapshot diff"
    finds_deletes: ClassVar[bool] = True
    needs_history: ClassVar[bool] = True
    judges_all: ClassVar[bool] = True
    why_not_again: ClassVar[str] = (
        "each snapshot overwrites the one before, so there is none to read again"
    )
    changed_at: ClassVar[str] = "_landing_day"

    key: tuple[str, ...]
    ignore: tuple[str, ...] = ()
    max_deleted_share: float = 0.2
    watermark: Advance | None = None
    scope: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.key:
            raise DefinitionError("SnapshotDiff needs a key: one column or several.")
        for name in ("key", "ignore", "scope"):
            given = getattr(self, name)
            if isinstance(given, str):
                raise DefinitionError(
                    f"SnapshotDiff: {name} is {given!r}; expected a tuple of columns: ({given!r},)."
                )
        unseen_moves = sorted({*self.scope} & {*self.ignore})
        if unseen_moves:
            raise DefinitionError(
                f"SnapshotDiff: {unseen_moves} are in scope and in ignore, so a row that moves to "
                "another part of the table would be deleted with its old one; leave them out of "
                "ignore."
            )
        share: object = self.max_deleted_share
        if not isinstance(share, int | float) or not 0 <= share <= 1:
            raise DefinitionError(
                f"SnapshotDiff: max_deleted_share is a share from 0 to 1, not {share!r}."
            )
        require_function("SnapshotDiff: watermark", self.watermark)

    @property
    def comparison(self) -> SnapshotComparison:
        """By its own key, ignored columns, parts and limit."""
        return SnapshotComparison(self.key, self.ignore, self.scope, self.max_deleted_share)

    def checks(self) -> Mapping[str, tuple[str, Severity]]:
        """That no snapshot deletes too much."""
        return self.comparison.checks()

    @property
    def positioned_by(self) -> str:
        return ", ".join(self.key)

    def advanced(self, before: datetime | None, seen: Seen) -> datetime | None:
        """The watermark after a load, the moment of the last snapshot. Raises WatermarkError."""
        after: datetime | None = (self.watermark or furthest)(before, seen)
        found: datetime | None = checked("the snapshot", before, after, seen)
        return found

    def high_after(self, before: str, lowest: Any, highest: Any, rows: int, now: datetime) -> str:
        """The same as text, from one moment of a snapshot to another."""
        return as_text(self.advanced(instant(before), Seen(lowest, highest, rows, now)))

    def inspect(self, request: ReadRequest) -> Inspection:
        """By the fingerprint; a snapshot of another moment is new, whatever it holds."""
        found, last = super().inspect(request), instant(self.position(request).high)
        if found.status != "nothing" or request.at is None or last is None:
            return found
        if request.source.is_missing:
            return found
        if request.at >= last:
            return Inspection("new", f"the snapshot is to stand for {request.at.isoformat()}")
        return Inspection("unknown", f"the snapshot of {request.at.isoformat()} comes late")

    @property
    def named_columns(self) -> tuple[str, ...]:
        return self.key

    def events(
        self, frames: Frames, rows: DataFrame, key: Sequence[str], kind: Any, table: str
    ) -> Events:
        return snapshot_events(rows)

    def rewound_day(self, last: Mapping[str, Any], before: Mapping[str, Any]) -> Mapping[str, Any]:
        """The state of the snapshot that the table still holds."""
        return super().rewound_day(before, last)

    def as_read(self, request: ReadRequest) -> AsRead:
        """The last snapshot, if it is there still. Raises SourceError if it is another one."""
        before = self.position(request)
        require_as_it_was_read(request, before)
        changes, at = replace(self, watermark=None), instant(before.high)
        ignored, scope = self.ignore, self.scope
        return AsRead(request.source, changes, at=at, one_moment=True, ignored=ignored, scope=scope)

    def read(self, request: ReadRequest, frames: Frames) -> SourceWindow | None:
        """The rows of the snapshot; None for one that is missing: it deletes nothing."""
        state = request.state
        before = self.position(request)
        last = instant(before.high)
        at = request.at or request.now
        # A second one for one moment corrects the first; a clock that went back makes none late.
        if last is not None and (at == last or (request.at is None and at < last)):
            at = last + timedelta(microseconds=1)
        if request.source.is_missing:
            return None
        source = request.source.rows(frames, state.known_types())
        own = own_types(source)
        if not own:
            require_no_lines(request, source)
            return None
        require_columns(request, own, (*self.key, *self.ignore, *self.scope, *request.partition_by))
        rows = with_order(source, own, F.lit(at).cast("timestamp_ltz"))
        rows = request.with_reasons(rows, [])
        if self.ignore:
            snapshot = frames.cache(rows.withColumn(SHOWN, row_hash(own, ignore=self.ignore)))
        else:  # the same hash is not cached twice
            snapshot = frames.cache(rows).withColumn(SHOWN, F.col(HASH))
        keyless = F.count_if(F.col("_raw").isNotNull() | self._lacks_key())
        return SourceWindow(snapshot, own, before, {"keyless": Value(keyless)}, found=at)

    def advance(
        self, request: ReadRequest, frames: Frames, window: SourceWindow, counted: Counted
    ) -> NewRows | None:
        """What differs from the snapshot before.

        Raises SnapshotError for a snapshot that would delete too much, and SourceError for one that
        holds a key twice.
        """
        if not counted.whole.rows:
            return None
        snapshot, own, at = window.rows, window.own, window.found
        keyless = bool(counted.values["keyless"])
        last = instant(window.before.high)
        if last is not None and at < last:
            if self.scope:
                raise SnapshotError(
                    f"{request.name}: the snapshot of {at.isoformat()} comes after one of "
                    f"{last.isoformat()}, and with scope={list(self.scope)} a loader takes them in "
                    "order only. Nothing was loaded; load it into a table of the lake, which takes "
                    "them in any order, or leave it out."
                )
            refuse_duplicates(request, snapshot)
            return late_changes(frames, request, self, snapshot, own, at, keyless=keyless)
        session = frames.session
        previous = previous_snapshot(session, request.snapshot, own, self.ignore)
        if previous is None:
            refuse_duplicates(request, snapshot)
            differing = marked(snapshot.where(is_good()), own, "insert")
        else:
            previous = with_scope(previous, snapshot, self.scope)
            differing = snapshot_changes(frames, request, snapshot, previous, own, at)
        if keyless:  # one of them may be the row that seems to be deleted
            differing = differing.where(~F.col(DELETED))
        if counted.whole.quarantined:
            bad = marked(snapshot.where(~is_good()), own, "update")
            bad = unseen(bad, request.state.quarantined(session))
            differing = differing.unionByName(bad)
        changed = frames.cache(differing)
        kind = F.when(is_good(), F.col(CHANGE)).otherwise(F.lit(QUARANTINED)).alias("kind")
        counts = {r["kind"]: r["count"] for r in changed.groupBy(kind).count().collect()}
        deletes = counts.get("delete", 0)
        self.refuse_deletes(request, previous, deletes)
        if not counts and request.at is None:
            return None
        seen = Seen(at, at, counted.whole.rows, request.now)
        high = as_text(self.advanced(last, seen))
        return NewRows(
            changed,
            own,
            Position(self.name, self.positioned_by, high, {"hash_version": HASH_VERSION}),
            counted.whole.rows,
            counts.get(QUARANTINED, 0),
            bool(deletes),
            notes=(_KEYLESS,) if keyless else (),
            # A row that the gate quarantined is not deleted: what was known of it stays.
            stored=changed.where(is_good()),
            changes=sum(counts.values()) - counts.get(QUARANTINED, 0),
        )

    def before_commit(
        self, request: ReadRequest, frames: Frames, new: NewRows, batch: int
    ) -> Sequence[SideRows | SideWrite]:
        """The stored snapshot, brought up to the new one."""
        if new.stored is None:
            return ()
        snapshot, name = request.snapshot, request.name
        return stage_snapshot(frames, snapshot, name, new.stored, new.own, request.key, batch)

    def roll_back(self, name: str, snapshot: str, batch: int) -> None:
        """Put the stored snapshot back."""
        restore_snapshot(snapshot, name, batch)

    def _lacks_key(self) -> Column:
        return reduce(Column.__or__, (F.col(quoted(name)).isNull() for name in self.key))

    def refuse_deletes(
        self, request: ReadRequest, previous: DataFrame | None, deletes: int
    ) -> None:
        """Raise SnapshotError for too many deletes from the snapshot before."""
        if previous is None or not deletes:
            return
        before = previous.where(IN_SCOPE).count() if self.scope else previous.count()
        share = deletes / before
        if share > self.max_deleted_share:
            of = f"{deletes:,} of {counted(before, 'row')} ({share:.1%})"
            raise SnapshotError(
                f"{request.name}: the snapshot {request.source.path} would delete {of}, and at "
                f"most {self.max_deleted_share:.1%} may be deleted at once. It is held back and "
                "nothing was loaded: check whether it is complete; if it is, allow the share with "
                "max_deleted_share."
            )
