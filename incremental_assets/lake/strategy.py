"""How rows land in a table: the write strategies, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Append:
    """Rows are only added; the rows of a repaired file are replaced."""


@dataclass(frozen=True, slots=True)
class Merge:
    """One row per key, the latest version by the table's order."""


@dataclass(frozen=True, slots=True)
class ReplaceDay:
    """A day that changed is written anew, whole.

    `day` is the partition column that holds it; a day that the batch touches is read anew from
    the source, with all its rows.
    """

    day: str = "dt"


@dataclass(frozen=True, slots=True)
class RecomputeKeys:
    """The rows of every key that changed are computed again, and no others.

    From all that the upstream has of the key. Or, where the rows of a day go on from those of the
    day before (a running total), from what it has of the first day that changed and of later ones:
    then `running` names the columns, with their SQL types, that the transform is handed of the
    key's last row before it.
    """

    running: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OverwriteDays:
    """The days in the batch are overwritten by the batch's rows; the others stay.

    `day` is a partition column. Unlike `ReplaceDay`, rows of such a day that are not in the batch
    are gone.
    """

    day: str = "dt"


@dataclass(frozen=True, slots=True)
class DeleteInsert:
    """What the table has of the batch's keys is deleted, and all rows of the batch are inserted.

    For keys that have several rows, such as the lines of an order.
    """


@dataclass(frozen=True, slots=True)
class SCD2:
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


Write = Append | Merge | ReplaceDay | OverwriteDays | DeleteInsert | SCD2
