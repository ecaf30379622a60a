"""A loader's target: a table without days, and the detector of its source."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path

from incremental_assets.changes.detector import Detector
from incremental_assets.changes.request import ReadRequest
from incremental_assets.changes.target_state import TargetState
from incremental_assets.errors import DefinitionError
from incremental_assets.quality.rule import Rule, needs_lake
from incremental_assets.sources.layout import is_hidden
from incremental_assets.sources.source import FixedSource, Source
from incremental_assets.writes.strategy import WriteStrategy

_PARTITION = re.compile(r"[A-Za-z0-9_]+")
_LONGEST_NAME = 200


@dataclass(frozen=True)
class TargetTable:
    """What a load of a target from its source needs to know.

    `path`, `ledger` and `snapshot` are paths or URIs of Delta tables; several targets may share a
    ledger, under different names. `at` is the moment a snapshot was taken (None: the load's).
    `start` is the watermark to begin above where the ledger knows none. `max_records` bounds what
    one load takes. `fixed` is read instead of the source as it is at the load. `cache` gives the
    folder of the jars, for a source that needs some.
    """

    name: str
    source: Source
    path: str
    ledger: str
    changes: Detector
    write: WriteStrategy
    key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    max_records: int | None = None
    snapshot: str = ""
    at: datetime | None = None
    start: str = ""
    fixed: FixedSource | None = None
    cache: Callable[[], Path] = field(kw_only=True)

    def __post_init__(self) -> None:
        is_text = isinstance(self.name, str) and self.name.strip() and self.name.isprintable()
        if not is_text or len(self.name.encode()) > _LONGEST_NAME:
            raise DefinitionError(
                f"table_name is {self.name!r}; expected a printable name of 1 to {_LONGEST_NAME} "
                "bytes."
            )
        self._require_own_paths()
        self._require_write()
        self._require_key()
        self._require_bound()
        odd = [name for name in self.partition_by if not _PARTITION.fullmatch(name)]
        if odd:
            raise DefinitionError(
                f"{self.name}: partition_by names {odd}; use columns whose names are letters, "
                "digits and underscores."
            )
        wide = [rule.name for rule in self.rules if needs_lake(rule)]
        if wide:
            raise DefinitionError(
                f"{self.name}: the rules {wide} judge days, or read other rows and tables; a "
                "loader judges a batch and its rows. Use them in a table of the lakehouse."
            )
        names = [rule.name for rule in self.rules]
        if len(set(names)) != len(names):
            raise DefinitionError(f"{self.name}: two rules have the same name: {sorted(names)}.")

    def _require_write(self) -> None:
        if not isinstance(self.write, WriteStrategy):
            raise DefinitionError(
                f"{self.name}: write is {self.write!r}; give a write strategy, such as Merge() or "
                "Append()."
            )
        if self.write.by_key and not self.key:
            raise DefinitionError(f"{self.name}: {self.write} needs a primary_key.")
        if self.write.by_event_time:
            raise DefinitionError(
                f"{self.name}: a loader measures versions in the numbers of its source; "
                'SCD2(valid_time="event") is for tables of the lake.'
            )
        if self.write.recomputes_keys:
            raise DefinitionError(
                f"{self.name}: {self.write} computes the rows of a gold table; a loader's rows are "
                "appended, merged, replaced by key or by day, or kept by SCD2()."
            )
        replaced = self.write.replaced_partition
        if replaced and self.partition_by != (replaced,):
            raise DefinitionError(
                f"{self.name}: {self.write} replaces partitions, so partition_by has to be "
                f"[{replaced!r}], not {list(self.partition_by)}."
            )
        if self.source.has_offsets and not self.changes.reads_once:
            raise DefinitionError(
                f"{self.name}: {type(self.changes).__name__} compares rows, and {self.source.path} "
                "is a topic, of which each message is read once; load it by a change log."
            )
        if self.changes.reads_once and not self.source.can_be_log:
            raise DefinitionError(
                f"{self.name}: {type(self.changes).__name__} reads files or versions, and "
                f"{self.source.path} has neither; load it by a timestamp, a sequence or snapshots."
            )
        if self.changes.finds_deletes and not self.write.applies_deletes:
            raise DefinitionError(
                f"{self.name}: {type(self.changes).__name__} brings deletes, so it needs "
                f"Merge() or SCD2(); {self.write} cannot delete."
            )

    def _require_key(self) -> None:
        left_out = {name.lower() for name in self.changes.left_out}
        odd = [name for name in self.key if name.lower() in left_out]
        if odd:
            raise DefinitionError(
                f"{self.name}: primary_key names {odd}, columns of the log that do not come into "
                "the target; name the key of the rows."
            )

    def _require_bound(self) -> None:
        most = self.max_records
        if most is not None and (not isinstance(most, int) or most < 1):
            raise DefinitionError(
                f"{self.name}: max_records is {most!r}; expected a whole number, at least 1."
            )
        if most is not None and self.write.replaces_by_batch:
            raise DefinitionError(
                f"{self.name}: {self.write} replaces loaded rows by those of a batch, so "
                "the next part of what max_records divides would replace the first one. Leave "
                "max_records out, or merge."
            )

    def _require_own_paths(self) -> None:
        paths = [p for p in (self.source.path, self.path, self.ledger, self.snapshot) if p]
        twice = next((path for path in paths if paths.count(path) > 1), None)
        if twice is not None:
            raise DefinitionError(
                f"{self.name}: {twice} is the path of several of the source, the target, the "
                "watermarks and the snapshot; give each of them a path of its own."
            )
        own = (path for path in (self.path, self.ledger, self.snapshot) if path)
        pairs = [*((path, self.source.path) for path in own), (self.source.path, self.path)]
        inside = next((pair for pair in pairs if _is_visible_in(*pair)), None)
        if inside is not None:
            raise DefinitionError(
                f"{self.name}: {inside[0]} lies in the folder {inside[1]}, where it would be taken "
                "for data, or removed as a file of no table. Give it a path outside of it, or "
                f"below a name that begins with '_', such as {inside[1]}/_{_name_of(inside[0])}."
            )

    @cached_property
    def state(self) -> TargetState:
        """The target; nothing of it is read yet."""
        return TargetState(self.name, self.path, self.write, self.key)


def _is_visible_in(path: str, folder: str) -> bool:
    """Whether a path lies in a folder with no name on the way that readers of the folder skip."""
    inside = path.removeprefix(f"{folder.rstrip('/')}/")
    return inside != path and not any(map(is_hidden, inside.split("/")))


def _name_of(path: str) -> str:
    return path.rpartition("/")[2]


def request_of(target: TargetTable, state: TargetState, now: datetime) -> ReadRequest:
    """The request to the detector, of the source as it is now. Raises SourceError.

    What the target is to start from counts for its first load: later ones have the watermark.
    """
    fixed = target.fixed or target.changes.reading(target.source).fix()
    return ReadRequest(
        target.name,
        fixed.with_as_written((*target.key, *target.partition_by)),
        state,
        now,
        target.key,
        target.partition_by,
        target.rules,
        target.max_records,
        state.start or ("" if state.last else target.start),
        target.at,
        target.snapshot,
    )
