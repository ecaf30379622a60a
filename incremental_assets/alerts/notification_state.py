"""The notification state between ticks: a condition is notified once, and once when it is over."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from incremental_assets.alerts.conditions import Condition
from incremental_assets.days import contiguous, parse_days
from incremental_assets.errors import DayError
from incremental_assets.plurals import counted

MOST_RANGES = 20
Subject = tuple[str, str]
"""The kind of a condition, and the table."""


@dataclass(frozen=True)
class NotificationState:
    """Per kind and table: the days that were notified, each with its fingerprint."""

    days: Mapping[Subject, Mapping[date, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, found: Iterable[Condition]) -> NotificationState:
        days: dict[Subject, dict[date, str]] = {}
        for each in found:
            days.setdefault((each.kind, each.table), {})[each.day] = each.fingerprint
        return cls(days)

    @classmethod
    def from_text(cls, text: str | None) -> NotificationState:
        """The state that `text` wrote; empty if it cannot be read, so all is notified again."""
        try:
            found = json.loads(text or "[]")
            days: dict[Subject, dict[date, str]] = {}
            for kind, table, span, fingerprint in found:
                days.setdefault((kind, table), {}).update(
                    dict.fromkeys(parse_days(span), fingerprint)
                )
        except (ValueError, TypeError, AttributeError, DayError):
            return cls()
        return cls(days)

    def text(self) -> str:
        """As JSON; contiguous days with one fingerprint take one entry."""
        entries = []
        for (kind, table), fingerprints in sorted(self.days.items()):
            for fingerprint in sorted(set(fingerprints.values())):
                days_of_fingerprint = [
                    day for day, its in fingerprints.items() if its == fingerprint
                ]
                entries += [
                    [kind, table, str(span), fingerprint]
                    for span in contiguous(days_of_fingerprint)
                ]
        return json.dumps(entries, separators=(",", ":"))


def notification(found: Sequence[Condition], state: NotificationState) -> dict[str, Any] | None:
    """The message with new conditions and those that are over; None if there are neither.

    `text` is for people; `alerts` and `resolved` are for programs: one entry per kind and table,
    with its days. Its size does not grow with the number of days.
    """
    now = NotificationState.of(found).days
    alerts = []
    for subject in now:
        before = state.days.get(subject, {})
        new = [
            c for c in found if (c.kind, c.table) == subject and before.get(c.day) != c.fingerprint
        ]
        if new:
            alerts.append(_alert(subject, new))
    resolved = []
    for subject, fingerprints in state.days.items():
        over = [day for day in fingerprints if day not in now.get(subject, {})]
        if over:
            resolved.append(_entry(subject, over))
    if not alerts and not resolved:
        return None
    lines = [f"• {a['table']} {_named(a)}: {a['found']}" for a in alerts]
    lines += [f"• {r['table']} {_named(r)}: no longer {r['kind']}" for r in resolved]
    return {
        "text": "\n".join(["incremental_assets: the state of the data", *lines]),
        "event": "data",
        "alerts": alerts,
        "resolved": resolved,
    }


def _alert(subject: Subject, new: Sequence[Condition]) -> dict[str, Any]:
    """The days of a table, described by the worst of them, or the one that waits longest."""
    worst = max(new, key=lambda c: (c.value, -c.since.timestamp() if c.since else 0.0))
    found = worst.found if len(new) == 1 else f"{worst.day} {worst.found}"
    return {**_entry(subject, [c.day for c in new]), "found": found, "value": round(worst.value, 6)}


def _entry(subject: Subject, days: Sequence[date]) -> dict[str, Any]:
    kind, table = subject
    spans = [str(span) for span in contiguous(days)]
    return {"kind": kind, "table": table, "days": spans[:MOST_RANGES], "count": len(days)}


def _named(entry: Mapping[str, Any]) -> str:
    """The days of an entry, and their number where it is not seen at a glance."""
    days: list[str] = entry["days"]
    named = ", ".join(days[:5]) + (" …" if len(days) > 5 else "")
    return named if entry["count"] < 3 else f"{named} ({counted(entry['count'], 'day')})"
