"""Failures of runs: in full for who reads the run's log, and in brief for who is alerted.

What a failure says may quote the data: a key, a value, the name of a field. An alert leaves the
place where the data is, so it is put together from what cannot hold any: names of tables and rules
as they are declared, days, counts, and what a kind of error means.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

import dagster as dg

from incremental_assets.days import named
from incremental_assets.errors import IncrementalAssetsError
from incremental_assets.lakehouse import DayResult
from incremental_assets.table import Table

BRIEF = "incremental_assets/in_brief"
_MOST_DAYS = 5


def failure(text: str, brief: str, **metadata: list[str]) -> dg.Failure:
    """A failure that is not tried again, and what an alert may tell of it."""
    return dg.Failure(text, metadata={BRIEF: brief, **metadata}, allow_retries=False)


def failure_of(error: IncrementalAssetsError) -> dg.Failure:
    """An error that the project raised on purpose; in brief it is what its kind means."""
    kind = type(error)
    meaning = (kind.__doc__ or "").partition("\n")[0]
    return failure(str(error), f"{kind.__name__}: {meaning}".strip())


def failure_text(table: Table, failed: Mapping[date, DayResult]) -> str:
    """Which days were not published, and why, in one message."""
    lines = [f"{table.name}: {named(failed)} not published."]
    for day, result in list(failed.items())[:_MOST_DAYS]:
        lines.append(f"{day}: {result.reason}.")
    if len(failed) > _MOST_DAYS:
        lines.append(f"… and {len(failed) - _MOST_DAYS} more days.")
    return " ".join(lines)


def failure_in_brief(table: Table, failed: Mapping[date, DayResult]) -> str:
    """The same in names of rules and counts."""
    lines = [f"{table.name}: {named(failed)} not published."]
    lines += [f"{day}: {_why(result)}." for day, result in list(failed.items())[:_MOST_DAYS]]
    if len(failed) > _MOST_DAYS:
        lines.append(f"… and {len(failed) - _MOST_DAYS} more days.")
    return " ".join(lines)


def brief_of(metadata: Mapping[str, dg.MetadataValue]) -> str:
    """What an alert may tell of a failure, by its metadata; "" where they say nothing of it."""
    told = metadata.get(BRIEF)
    return str(told.value) if told is not None else ""


def _why(result: DayResult) -> str:
    if result.state == "refused":
        return "refused, for its gate or one above it holds the day or what it is made of"
    rules = [r.rule for r in result.checks.values() if r.severity == "fail" and not r.passed]
    entry = result.entries[-1]
    counts = f"{entry.rows_quarantined} of {entry.rows_read} rows are in quarantine"
    return f"held by {', '.join(rules)}; {counts}"
