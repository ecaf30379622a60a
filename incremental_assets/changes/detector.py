"""What a change detector is: a value that reads what is new in a source, and how far it got.

A detector is one object in one file. A load of a target asks it in this order: `read` the rows that
may be new, count them in the gate's one pass, `advance` to the rows that are new and the position
after them, and `before_commit` stage what it has to know of the source next time. A table of a lake
reads its days by `DayReading`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql.types import DataType

from incremental_assets.changes.as_read import AsRead
from incremental_assets.changes.bronze_events import Events
from incremental_assets.changes.day_reading import DayReading
from incremental_assets.changes.inspection import Inspection, inspect_by_fingerprint
from incremental_assets.changes.position import Position, without_fingerprints
from incremental_assets.changes.request import ReadRequest
from incremental_assets.delta.columns import HASH, ORDER
from incremental_assets.delta.staged_write import SideRows, SideWrite
from incremental_assets.errors import DefinitionError
from incremental_assets.file_identity import FileLike, is_as_listed
from incremental_assets.frames import Frames
from incremental_assets.ledger.entry import FileEntry
from incremental_assets.quality.gate import Counted, Value
from incremental_assets.quality.rule import Severity

File = TypeVar("File", bound=FileLike)


@dataclass(frozen=True)
class SourceWindow:
    """The rows of a source that may be new, read once, for the gate.

    `rows` are cached: the source's own columns (`own` names them with their types), the order
    columns, `_hash`, `_file`, `_raw` and `_reasons`. `values` are what the detector wants counted
    of them; rules apply to those that are `live`. `before` is where the last load left off, `every`
    all rows of the source, likewise, and `found` what the detector itself has found out.
    """

    rows: DataFrame
    own: Mapping[str, DataType]
    before: Position
    values: Mapping[str, Value] = field(default_factory=dict)
    live: Column | None = None
    every: DataFrame | None = None
    found: Any = None


@dataclass(frozen=True)
class NewRows:
    """The rows that are new, good and bad ones, and the position after them.

    `rows` are as in a SourceWindow, with `_deleted` where there may be deletes. `read` and
    `quarantined` count what was read, and `changes` the good ones of `rows`, if these are fewer;
    `stored` is what `before_commit` is to store. `identity` is the column by which a good row is
    found in quarantine, if it may be there.
    """

    rows: DataFrame
    own: Mapping[str, DataType]
    after: Position
    read: int
    quarantined: int = 0
    deletes: bool = False
    files: tuple[FileEntry, ...] = ()
    notes: tuple[str, ...] = ()
    every: DataFrame | None = None
    stored: DataFrame | None = None
    identity: str | None = HASH
    changes: int | None = None

    @property
    def good(self) -> int:
        """How many of `rows` are good."""
        return self.read - self.quarantined if self.changes is None else self.changes


@dataclass(frozen=True)
class Detector(DayReading):
    """Base of the change detectors.

    `name` is what the ledger calls it. `finds_deletes`: it finds deletes, too, so that bronze keeps
    events. `finds_truncates`: among them may be one that deletes every row. `needs_history`: it has
    to know all loads of a target, not the last one alone. `judges_all`: each load judges all rows
    of the source, also those in quarantine. `why_not_again` is the reason that what it has read of
    a source in place cannot be read again; "" where it can.
    """

    name: ClassVar[str]
    finds_deletes: ClassVar[bool] = False
    finds_truncates: ClassVar[bool] = False
    needs_history: ClassVar[bool] = False
    judges_all: ClassVar[bool] = False
    why_not_again: ClassVar[str] = ""

    @property
    def positioned_by(self) -> str:
        """What the ledger calls the column, or the order, of its positions."""
        return self.cursor_column or ""

    @property
    def order(self) -> tuple[str, ...]:
        """The total order between versions of a key that it finds; the row hash is last."""
        return (ORDER, HASH)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Columns of the source that state how it is read, and do not come into a target."""
        return ()

    def checks(self) -> Mapping[str, tuple[str, Severity]]:
        """What a load of a bronze table is evaluated by besides its rules, by name.

        Each with its description and its severity; mostly none.
        """
        return {}

    def new_and_changed(
        self,
        listed: Sequence[File],
        known: Mapping[str, FileLike],
        tagged: Callable[[File], File],
    ) -> tuple[list[File], list[File]]:
        """Split what is listed into new files and changed ones, each with its tag.

        `known` are the files as they were loaded, by path; `tagged` gives a file its tag, which
        may mean reading it. Files are known by path, size and tag, never by modification time
        alone. The tag is the store's own, or a digest of the content where a store or a disk has
        none. A file whose size and modification time are as they were is taken as unchanged
        without reading it; one whose time changed is compared by its tag. A known file that is
        missing is no change: it may have been archived.
        """
        new: list[File] = []
        changed: list[File] = []
        for file in listed:
            before = known.get(file.path)
            if before is None:
                new.append(tagged(file))
            elif not is_as_listed(file, before):
                now = tagged(file)
                if (now.size, now.tag) != (before.size, before.tag):
                    changed.append(now)
        return new, changed

    def position(self, request: ReadRequest) -> Position:
        """Where the last load left off. Raises WatermarkError if another detector left it."""
        return request.state.position(Position(self.name, self.positioned_by, request.start))

    def inspect(self, request: ReadRequest) -> Inspection:
        """Whether there is anything new, found without Spark."""
        return inspect_by_fingerprint(request, self.position(request))

    def events(
        self, frames: Frames, rows: DataFrame, key: Sequence[str], kind: Any, table: str
    ) -> Events:
        """The rows of a bronze table as changes; of a detector that finds deletes.

        `kind` is what earlier loads settled on. Raises SourceError where positions of two kinds
        meet, which have no order between them.
        """
        raise DefinitionError(f"{table}: {type(self).__name__} finds rows, not changes.")

    def rewound(self, last: Position, before: Position) -> Position:
        """The position `before`, to go on from after `last`: nothing that is loaded comes twice."""
        return replace(before, state=without_fingerprints(before.state))

    def read(self, request: ReadRequest, frames: Frames) -> SourceWindow | None:
        """The rows of the source that may be new; None where nothing can be."""
        raise DefinitionError(f"{request.name}: {type(self).__name__} reads no source by itself.")

    def advance(
        self, request: ReadRequest, frames: Frames, window: SourceWindow, counted: Counted
    ) -> NewRows | None:
        """The rows that are new, and the position after them; None where there are none."""
        raise DefinitionError(f"{request.name}: {type(self).__name__} reads no source by itself.")

    def read_again(
        self, request: ReadRequest, frames: Frames, quarantined: DataFrame
    ) -> SourceWindow | None:
        """The rows of the source that are in quarantine, without those that were loaded since.

        `quarantined` has their `_hash` and `_file`.
        """
        raise DefinitionError(f"{request.name}: {type(self).__name__} reads no source by itself.")

    def advance_again(
        self, request: ReadRequest, frames: Frames, window: SourceWindow, counted: Counted
    ) -> NewRows:
        """These rows; the position is where it was."""
        gate = counted.whole
        return NewRows(
            window.rows, window.own, window.before, gate.rows, gate.quarantined, every=window.every
        )

    def as_read(self, request: ReadRequest) -> AsRead:
        """What the source still has of all that was read. Raises SourceError if too little."""
        raise DefinitionError(f"{request.name}: {type(self).__name__} reads no source by itself.")

    def before_commit(
        self, request: ReadRequest, frames: Frames, new: NewRows, batch: int
    ) -> Sequence[SideRows | SideWrite]:
        """Stage the state of the source that the next load needs.

        The load puts it into its tables, in this order, just before the commit.
        """
        return ()

    def roll_back(self, name: str, snapshot: str, batch: int) -> None:
        """Take back what was stored by `before_commit` for an abandoned batch."""
