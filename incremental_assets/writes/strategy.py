"""What a write strategy is: a value that stages the changes of a batch, and rebuilds keys.

A strategy is one object in one file. No code outside it asks which one it is: what else a load has
to know are its facts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from pyspark.sql import DataFrame

from incremental_assets.delta.columns import PARTIAL
from incremental_assets.delta.staged_write import StagedWrite
from incremental_assets.errors import DefinitionError
from incremental_assets.frames import Frames
from incremental_assets.ledger.entry import Mode
from incremental_assets.writes.destination import ChangeSet, Destination


@dataclass(frozen=True, slots=True)
class WriteStrategy(ABC):
    """Base of the write strategies.

    Facts: `appends`: every row stays. `by_key`: rows are identified by the table's key.
    `applies_deletes`: it can take rows away that a change log or a snapshot deletes.
    `keeps_latest`: a key has its latest row alone. `keeps_versions`: a key has a row per version,
    with the columns `validity`. `recomputes_keys`: a rebuild covers keys, whose rows may be on any
    day, and the columns in `running_columns` go on from the day before. `loses_rows`: rows that
    were loaded may leave the table, so a side table records which they are. `replaces_by_batch`:
    which rows leave it depends on which others come in the same batch. `completes_rows`: it knows
    what to do with an update of a log that lacks columns (`_partial`). `mode` is what the ledger
    calls a load.
    """

    appends: ClassVar[bool] = False
    by_key: ClassVar[bool] = False
    applies_deletes: ClassVar[bool] = False
    keeps_latest: ClassVar[bool] = False
    keeps_versions: ClassVar[bool] = False
    recomputes_keys: ClassVar[bool] = False
    loses_rows: ClassVar[bool] = True
    replaces_by_batch: ClassVar[bool] = False
    completes_rows: ClassVar[bool] = False
    validity: ClassVar[tuple[str, ...]] = ()
    mode: ClassVar[Mode] = "replace"

    @property
    def running_columns(self) -> Mapping[str, str]:
        """The columns, with their SQL types, that go on from the day before; mostly none."""
        return MappingProxyType({})

    @property
    def ignored(self) -> tuple[str, ...]:
        """The columns whose change alone makes no new version."""
        return ()

    @property
    def by_event_time(self) -> bool:
        """Whether versions are measured by when a row changed by the log."""
        return False

    @property
    def rows_of_key(self) -> str:
        """What a table holds of each key: a write that keeps something else would break it.

        It is recorded with the targets of loaders, so these words stay as they are.
        """
        if self.keeps_versions:
            return "versions"
        if self.keeps_latest:
            return "the latest row"
        return "all rows of one load" if self.by_key else "every row"

    @property
    def replaced_partition(self) -> str:
        """The partition column whose partitions a batch replaces whole; "" for none."""
        return ""

    @property
    def rebuilds_keys(self) -> bool:
        """Whether it has a `rebuild` of its own."""
        return type(self).rebuild is not WriteStrategy.rebuild

    @abstractmethod
    def stage(self, frames: Frames, to: Destination, changes: ChangeSet) -> StagedWrite:
        """Stage what the table holds once the changes are in it; nothing is committed.

        Keys are looked up in the files that `to.keep` names, as `to.merge` does, and in no others:
        a day that is rebuilt whole replaces what the table has of it.
        """

    def rebuild(
        self,
        frames: Frames,
        to: Destination,
        changes: ChangeSet,
        keys: DataFrame,
        here: str,
        carried_forward: str = "",
    ) -> StagedWrite:
        """Stage what the table holds of the `keys`, given every change that is known of them.

        `here` (SQL) selects the rows that this batch replaces: what side tables hold of these does
        not count any more. `carried_forward` selects what `changes` lack: there, the rows of the
        table and its side tables count as they are. Raises DefinitionError where rows have no key.
        """
        raise DefinitionError(f"{to.name}: {self} has no keys that could be rebuilt.")


def require_completed(write: WriteStrategy, name: str, changes: ChangeSet) -> None:
    """Raise DefinitionError where changes lack columns, and the write would store them as null."""
    if PARTIAL in changes.own and not write.completes_rows:
        raise DefinitionError(
            f"{name}: updates of its log lack columns that did not change, and {write} does not "
            "complete them (`completes_rows`). Nothing was loaded; use Merge() or SCD2(), or let "
            "the log have whole rows."
        )
