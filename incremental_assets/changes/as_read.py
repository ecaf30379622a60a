"""What a source still has of all that was read of it, for building a target again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from incremental_assets.changes.position import Position, is_as_read
from incremental_assets.changes.request import ReadRequest
from incremental_assets.errors import SourceError
from incremental_assets.sources.source import FixedSource

if TYPE_CHECKING:
    from incremental_assets.changes.detector import Detector


@dataclass(frozen=True)
class AsRead:
    """The `source` as it was read, and the detector by which it is read again.

    `forgets`: rows that were read may have been updated or deleted there since. `one_moment`: it
    shows its rows as they are at one moment, not since when, nor what they were before. `up_to` is
    the highest cursor that was read (None: all of it was), `at` the moment of a snapshot, `ignored`
    the columns whose change is none, `shown` what identifies a row without a key to a person. With
    `scope` it shows the rows of the units that it has, of these columns, and no others.
    """

    source: FixedSource
    changes: Detector
    forgets: bool = False
    one_moment: bool = False
    up_to: Any = None
    at: datetime | None = None
    ignored: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()


def require_as_it_was_read(request: ReadRequest, before: Position) -> None:
    """Raise SourceError where the source is not what the last load read."""
    last = request.state.last
    if last is not None and not is_as_read(request.source, before.state):
        raise SourceError(
            f"{request.name}: the source {request.source.path} has changed since the last load, "
            "and its earlier state is gone. Load it, then verify."
        )
