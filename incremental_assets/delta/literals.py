"""Values as SQL literals."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date


def sql_text(text: str) -> str:
    """Text as a SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def sql_days(days: Iterable[date]) -> str:
    """Days as a list of SQL literals."""
    return ", ".join(f"DATE'{day}'" for day in sorted(days))
