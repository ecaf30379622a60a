"""What a catalog answered lately, for all loads of this process: Dagster opens a lakehouse a step.

Both kinds of answer expire, for somebody may drop a table there, and a catalog comes back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

ASK_AGAIN_SECONDS = 300.0


@dataclass
class Answers:
    """What a schema of a catalog answered about a lake; times are of a monotonic clock."""

    _asked: dict[str, float] = field(default_factory=dict)
    _failed: float | None = None

    def has(self, table: str, now: float) -> bool:
        """Whether the catalog has the table, or refused it, by its answer of a short while ago."""
        at = self._asked.get(table)
        return at is not None and now - at < ASK_AGAIN_SECONDS

    def is_down(self, now: float) -> bool:
        """Whether the catalog could not be used a short while ago."""
        return self._failed is not None and now - self._failed < ASK_AGAIN_SECONDS

    def answered(self, now: float, table: str) -> None:
        """The catalog can be used; it has this table, or refuses it."""
        self._failed = None
        self._asked[table] = now

    def failed(self, now: float) -> None:
        """The catalog cannot be used."""
        self._failed = now


@cache
def answers_of(schema: str, lake: str) -> Answers:
    """The one object for a schema of a catalog and a lake in this process."""
    return Answers()
