"""How far a source was read: the state that its detector left in the ledger, to continue from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from incremental_assets.errors import WatermarkError
from incremental_assets.ledger.entry import Entry


@dataclass(frozen=True, slots=True)
class Position:
    """How far a table was read: the state that its detector left, and the watermark as text."""

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


def state_of(entry: Entry | None) -> Mapping[str, Any]:
    """The state that the detector left in an entry of the ledger; empty without one."""
    return parsed(entry.position if entry else "")


def parsed(position: str) -> Mapping[str, Any]:
    """The state as an entry of the ledger has it; empty for ""."""
    state: Mapping[str, Any] = json.loads(position) if position else {}
    return state
