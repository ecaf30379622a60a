"""How rows land in a table: the write strategies, as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Append:
    """Rows are only added; the rows of a repaired file are replaced."""


@dataclass(frozen=True, slots=True)
class Merge:
    """One row per key, the latest version by the table's order."""


@dataclass(frozen=True, slots=True)
class ReplaceDay:
    """A day that changed is written anew, whole."""
