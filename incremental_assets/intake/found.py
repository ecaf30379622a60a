"""What a detector found in a source: the rows that are new, and where the next load goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType

from incremental_assets.errors import WatermarkError
from incremental_assets.ledger.entry import FileEntry


@dataclass(frozen=True, slots=True)
class Position:
    """How far a table was read: what its detector left, and the watermark as text."""

    detector: str
    column: str
    high: str = ""
    state: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> str:
        """For the ledger."""
        return json.dumps({"detector": self.detector, "column": self.column, **self.state})

    @classmethod
    def after(cls, text: str, high: str, expected: Position, table: str) -> Position:
        """The position that the ledger holds; `expected` where it holds none.

        Raises WatermarkError if another detector or column left it.
        """
        if not text:
            return expected
        state = json.loads(text)
        detector, column = state.pop("detector", ""), state.pop("column", "")
        if (detector, column) != (expected.detector, expected.column):
            raise WatermarkError(
                f"{table} was loaded by {detector} of {column!r} so far, and is now to be loaded "
                f"by {expected.detector} of {expected.column!r}: their watermarks have nothing in "
                "common. Give the load another table_name, or go on as before."
            )
        return cls(detector, column, high, state)


@dataclass(frozen=True)
class Found:
    """New rows and the position after them.

    `rows` are persisted: the source's own columns (`own` names them with their types), the order
    columns, `_hash`, `_file`, `_raw` and `_reasons`; for a change log and a snapshot `_deleted`.
    `whole` gives all rows of the source on some days, likewise; `prepare` is called with the batch
    number before the target is published, for what has to be there by then.
    """

    rows: DataFrame
    own: Mapping[str, DataType]
    after: Position
    read: int
    quarantined: int = 0
    deletes: int = 0
    files: tuple[FileEntry, ...] = ()
    notes: tuple[str, ...] = ()
    whole: Callable[[str, Collection[Any]], DataFrame] | None = None
    prepare: Callable[[int], None] | None = None
