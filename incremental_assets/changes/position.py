"""How far a source was read: the state that its detector left in the ledger, to continue from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from incremental_assets.errors import WatermarkError
from incremental_assets.ledger.entry import Entry
from incremental_assets.sources.source import FixedSource, Version

FINGERPRINT = "source"
"""Under this name a position keeps the fingerprint of the source as it was read."""
_FINGERPRINTS = (FINGERPRINT, "seen", "listed")  # the others are of a day: of its rows, its files


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
                "common. Give the load another table_name, or continue as before."
            )
        return cls(detector, column, high, state)


def state_of(entry: Entry | None) -> Mapping[str, Any]:
    """The state that the detector left in an entry of the ledger; empty without one."""
    return parsed(entry.position if entry else "")


def without_fingerprints(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state by which no source counts as unchanged."""
    return {name: value for name, value in state.items() if name not in _FINGERPRINTS}


def is_as_read(source: FixedSource, state: Mapping[str, Any]) -> bool:
    """Whether a source is what it was when the state was left."""
    return bool(state.get(FINGERPRINT) == source.fingerprint)


def version_read(source: FixedSource, state: Mapping[str, Any]) -> Version | None:
    """Up to which version a log was read; None where another table is there now.

    Its commits count from 0 again.
    """
    read = state.get("version")
    if read is not None and not source.is_same_table(state.get(FINGERPRINT, "")):
        return None
    return read


def parsed(position: str) -> Mapping[str, Any]:
    """The state as an entry of the ledger has it; empty for ""."""
    state: Mapping[str, Any] = json.loads(position) if position else {}
    return state
