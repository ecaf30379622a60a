"""How rows land in a table: the write strategies, as values.

What a load has to know of a strategy, whichever it is, are the facts of `WriteStrategy`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, Literal

VALIDITY = ("valid_from", "valid_to", "is_current")


@dataclass(frozen=True, slots=True)
class WriteStrategy:
    """Base: what may be asked of a strategy without knowing which one it is.

    `appends`: every row stays. `by_key`: rows are told apart by the table's key. `keeps_versions`:
    a key has a row per version, with the columns `validity`. `recomputes_keys`: a rebuild covers
    keys, whose rows may lie on any day, and the columns in `running` go on from the day before.
    """

    appends: ClassVar[bool] = False
    by_key: ClassVar[bool] = False
    keeps_versions: ClassVar[bool] = False
    recomputes_keys: ClassVar[bool] = False
    validity: ClassVar[tuple[str, ...]] = ()

    @property
    def running_columns(self) -> Mapping[str, str]:
        """The columns, with their SQL types, that go on from the day before; mostly none."""
        return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Append(WriteStrategy):
    """Rows are only added; the rows of a repaired file are replaced."""

    appends: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Merge(WriteStrategy):
    """One row per key, the latest version by the table's order."""

    by_key: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class ReplaceDay(WriteStrategy):
    """A day that changed is written anew, whole.

    `day` is the partition column that holds it; a day that the batch touches is read anew from
    the source, with all its rows.
    """

    day: str = "dt"


@dataclass(frozen=True, slots=True)
class RecomputeKeys(WriteStrategy):
    """The rows of every key that changed are computed again, and no others.

    From all that the upstream has of the key. Or, where the rows of a day go on from those of the
    day before (a running total), from what it has of the first day that changed and of later ones:
    then `running` names the columns, with their SQL types, that the transform is handed of the
    key's last row before it.
    """

    running: Mapping[str, str] = field(default_factory=dict)

    by_key: ClassVar[bool] = True
    recomputes_keys: ClassVar[bool] = True

    @property
    def running_columns(self) -> Mapping[str, str]:
        return self.running


@dataclass(frozen=True, slots=True)
class OverwriteDays(WriteStrategy):
    """The days in the batch are overwritten by the batch's rows; the others stay.

    `day` is a partition column. Unlike `ReplaceDay`, rows of such a day that are not in the batch
    are gone.
    """

    day: str = "dt"


@dataclass(frozen=True, slots=True)
class DeleteInsert(WriteStrategy):
    """What the table has of the batch's keys is deleted, and all rows of the batch are inserted.

    For keys that have several rows, such as the lines of an order.
    """

    by_key: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class SCD2(WriteStrategy):
    """Every version of a key, with the half-open interval in which it was valid.

    A slowly changing dimension of type 2. `valid_from` and `valid_to` are in the units of the
    column by which versions are ordered, `is_current` marks the version without an end. A change in
    the columns `ignore_changes_in` alone makes no new version; the version takes the later value.

    The versions of a change log are ordered by its log position, and `valid_time="event"` measures
    their intervals by when the log says that a row changed (timestamps), so that facts can be
    looked up in them. Where its clock went back, a version begins with the one before it, which is
    then never shown.
    """

    ignore_changes_in: tuple[str, ...] = ()
    valid_time: Literal["log_position", "event"] = "log_position"

    by_key: ClassVar[bool] = True
    keeps_versions: ClassVar[bool] = True
    validity: ClassVar[tuple[str, ...]] = VALIDITY


Write = Append | Merge | ReplaceDay | OverwriteDays | DeleteInsert | SCD2
