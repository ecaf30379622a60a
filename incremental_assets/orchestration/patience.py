"""How long a sensor tolerates a source or a ledger that is unreachable."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Self

from incremental_assets.errors import IncrementalAssetsError

PATIENCE = timedelta(minutes=30)


@dataclass(frozen=True)
class SensorCursor:
    """What one tick hands to the next: nothing about positions, which the ledger has.

    `unreachable_since` is an instant in ISO 8601, or "". `outside` are the days that were reported
    to be outside the partitions, in words. `failures_seen` is Dagster's number of the last run's
    failure after which red days were cleared; 0 before the first.
    """

    unreachable_since: str = ""
    outside: str = ""
    failures_seen: int = 0

    @classmethod
    def of(cls, text: str | None) -> Self:
        """The cursor that a tick stored; a new one where that is not readable."""
        try:
            stored = json.loads(text or "{}")
            return cls(
                str(stored.get("unreachable_since", "")),
                str(stored.get("outside", "")),
                int(stored.get("failures_seen", 0)),
            )
        except (ValueError, AttributeError, TypeError):
            return cls()

    def __str__(self) -> str:
        return json.dumps(asdict(self))

    def unreachable(self, at: datetime, what: str, error: IncrementalAssetsError) -> Self:
        """The cursor with the time since when. Raises an error of the same kind after PATIENCE."""
        since = self.unreachable_since or at.isoformat(timespec="seconds")
        if at - datetime.fromisoformat(since) >= PATIENCE:
            raise type(error)(
                f"{what}: no run could be requested since {since}: {error}"
            ) from error
        return replace(self, unreachable_since=since)


def utc_now() -> datetime:
    """The clock of the sensors, where no other is given."""
    return datetime.now(UTC)
