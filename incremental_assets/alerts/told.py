"""What was told already, kept between ticks: each thing is told once, and once when it is over."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from incremental_assets.alerts.conditions import Condition
from incremental_assets.days import contiguous, parse_days
from incremental_assets.errors import DayError

MOST_RANGES = 20
About = tuple[str, str]
"""The kind of a condition, and the table."""


@dataclass(frozen=True)
class Told:
    """Per kind and table the days that were told, each with the mark that it had."""

    days: Mapping[About, Mapping[date, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, found: Iterable[Condition]) -> Told:
        days: dict[About, dict[date, str]] = {}
        for each in found:
            days.setdefault((each.kind, each.table), {})[each.day] = each.mark
        return cls(days)

    @classmethod
    def from_text(cls, text: str | None) -> Told:
        """What `text` made; nothing at all of what cannot be read, so that it is told again."""
        try:
            found = json.loads(text or "[]")
            days: dict[About, dict[date, str]] = {}
            for kind, table, span, mark in found:
                days.setdefault((kind, table), {}).update(dict.fromkeys(parse_days(span), mark))
        except (ValueError, TypeError, AttributeError, DayError):
            return cls()
        return cls(days)

    def text(self) -> str:
        """As JSON; days in a row with one mark take one entry."""
        entries = []
        for (kind, table), marks in sorted(self.days.items()):
            for mark in sorted(set(marks.values())):
                of_mark = [day for day, its in marks.items() if its == mark]
                entries += [[kind, table, str(span), mark] for span in contiguous(of_mark)]
        return json.dumps(entries, separators=(",", ":"))


def news(found: Sequence[Condition], told: Told) -> dict[str, Any] | None:
    """The message that tells what is so and was not told yet, and what is over; None for neither.

    `text` is for people; `alerts` and `resolved` are for programs: one entry per kind and table,
    with its days. Its size does not grow with the number of days.
    """
    now = Told.of(found).days
    alerts = []
    for about in now:
        before = told.days.get(about, {})
        new = [c for c in found if (c.kind, c.table) == about and before.get(c.day) != c.mark]
        if new:
            alerts.append(_alert(about, new))
    resolved = []
    for about, marks in told.days.items():
        over = [day for day in marks if day not in now.get(about, {})]
        if over:
            resolved.append(_entry(about, over))
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


def _alert(about: About, new: Sequence[Condition]) -> dict[str, Any]:
    """The days of a table; in words the worst of them, or the one that waits longest."""
    worst = max(new, key=lambda c: (c.value, -c.since.timestamp() if c.since else 0.0))
    found = worst.found if len(new) == 1 else f"{worst.day} {worst.found}"
    return {**_entry(about, [c.day for c in new]), "found": found, "value": round(worst.value, 6)}


def _entry(about: About, days: Sequence[date]) -> dict[str, Any]:
    kind, table = about
    spans = [str(span) for span in contiguous(days)]
    return {"kind": kind, "table": table, "days": spans[:MOST_RANGES], "count": len(days)}


def _named(entry: Mapping[str, Any]) -> str:
    days: list[str] = entry["days"]
    named = ", ".join(days[:5]) + (" …" if len(days) > 5 else "")
    return named if entry["count"] == 1 else f"{named} ({entry['count']} days)"
