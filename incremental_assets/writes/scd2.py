"""SCD2: every version of a key, with the interval in which it was valid."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from pyspark.sql import DataFrame

from incremental_assets.delta.columns import DELETED, PARTIAL
from incremental_assets.delta.scd2 import VALIDITY, Versions, merge_scd2
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.errors import DefinitionError
from incremental_assets.frames import Frames
from incremental_assets.ledger.entry import Mode
from incremental_assets.row_hash import row_hash
from incremental_assets.writes.destination import ChangeSet, Destination
from incremental_assets.writes.strategy import WriteStrategy


@dataclass(frozen=True, slots=True)
class SCD2(WriteStrategy):
    """Every version of a key, with the half-open interval in which it was valid.

    A slowly changing dimension of type 2. `valid_from` and `valid_to` are in the units of the
    column by which versions are ordered, `is_current` marks the version without an end. A change in
    the columns `ignore_changes_in` alone makes no new version; the version takes the later value.

    The versions of a change log are ordered by its log position, and `valid_time="event"` measures
    their intervals by when a row changed by the log (timestamps), so that facts can be
    looked up in them. Where its clock went back, a version begins with the one before it, which is
    then never shown.
    """

    ignore_changes_in: tuple[str, ...] = ()
    valid_time: Literal["log_position", "event"] = "log_position"

    by_key: ClassVar[bool] = True
    applies_deletes: ClassVar[bool] = True
    completes_rows: ClassVar[bool] = True
    keeps_versions: ClassVar[bool] = True
    validity: ClassVar[tuple[str, ...]] = VALIDITY
    mode: ClassVar[Mode] = "history"

    def __post_init__(self) -> None:
        if isinstance(self.ignore_changes_in, str):
            raise DefinitionError(
                f"SCD2: ignore_changes_in is {self.ignore_changes_in!r}; expected a tuple of "
                f"columns: ({self.ignore_changes_in!r},)."
            )

    @property
    def ignored(self) -> tuple[str, ...]:
        return self.ignore_changes_in

    @property
    def by_event_time(self) -> bool:
        return self.valid_time == "event"

    def stage(self, frames: Frames, to: Destination, changes: ChangeSet) -> StagedWrite:
        """The versions of every key that the changes touch."""
        return self._staged(frames, to, changes, None, "", "")

    def rebuild(
        self,
        frames: Frames,
        to: Destination,
        changes: ChangeSet,
        keys: DataFrame,
        here: str,
        carried_forward: str = "",
    ) -> StagedWrite:
        """The versions of the keys, whatever the table held, but for what is carried forward."""
        return self._staged(frames, to, changes, keys, here, carried_forward)

    def _staged(
        self,
        frames: Frames,
        to: Destination,
        changes: ChangeSet,
        keys: DataFrame | None,
        here: str,
        carried_forward: str,
    ) -> StagedWrite:
        types = dict(to.columns) | dict(changes.own)
        ignored = {name.lower() for name in (*self.ignore_changes_in, *to.hidden, PARTIAL)}
        shown = row_hash({n: t for n, t in types.items() if n.lower() not in ignored})
        superseded = to.superseded(frames.session)
        if superseded is not None and here:
            superseded = superseded.where(f"NOT ({here})")
        write, shows_none = merge_scd2(
            frames,
            changes.changes.select(*to.written(changes.own), DELETED),
            superseded,
            to.path,
            to.batch,
            to.folder,
            Versions(to.key, to.order, shown, to.first_by, to.valid_time),
            rebuilt=keys,
            carried_forward=carried_forward,
        )
        if shows_none is None:
            return write
        return replace(write, side=(to.side(shows_none, changes.own),))
