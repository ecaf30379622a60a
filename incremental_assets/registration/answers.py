"""What a catalog answered lately, for all loads of this process: Dagster opens a lakehouse a step.

Both kinds of answer expire, for somebody may drop a table there, and a catalog comes back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

ASK_AGAIN_SECONDS = 300.0


@dataclass
class Answers:
    """What one catalog answered about the tables of one lake; times are of a monotonic clock."""

    _registered: dict[str, float] = field(default_factory=dict)
    _failed: float | None = None

    def has(self, table: str, now: float) -> bool:
        """Whether the catalog had the table a short while ago."""
        at = self._registered.get(table)
        return at is not None and now - at < ASK_AGAIN_SECONDS

    def is_down(self, now: float) -> bool:
        """Whether the catalog could not be used a short while ago."""
        return self._failed is not None and now - self._failed < ASK_AGAIN_SECONDS

    def answered(self, now: float, table: str | None = None) -> None:
        """The catalog can be used, and has this table."""
        self._failed = None
        if table is not None:
            self._registered[table] = now

    def failed(self, now: float) -> None:
        """The catalog cannot be used."""
        self._failed = now


@cache
def answers_of(catalog: str, schema: str, lake: str) -> Answers:
    """The one object for a catalog, its schema and a lake in this process."""
    return Answers()
