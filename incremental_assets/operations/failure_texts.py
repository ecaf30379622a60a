"""What failed, as text: in full for a log, and in brief for alerts.

The message of a failure may quote the data: a key, a value, the name of a field. An alert leaves
the system, so it is built from what cannot hold any data: declared names of tables and rules, days,
counts, and what a kind of error means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date

from incremental_assets.days import named
from incremental_assets.errors import IncrementalAssetsError
from incremental_assets.lakehouse import DayResult, Lakehouse
from incremental_assets.ledger.view import LedgerView
from incremental_assets.plan.retract import missing_below
from incremental_assets.plan.skipped import held_until
from incremental_assets.plurals import counted
from incremental_assets.table import Table

HELD, REFUSED = "held", "refused"
_MOST_DAYS = 5


def error_in_brief(error: Exception) -> str:
    """What an alert may contain of an error: what its kind means."""
    kind = type(error)
    meaning = (kind.__doc__ or "").partition("\n")[0]
    return f"{kind.__name__}: {meaning}".strip()


def error_of(table: Table, error: Exception) -> str:
    """The message of an error, which names the table that it is about; of a foreseen one no class.

    An unforeseen one is of the code of a table or a source, whose traceback is in the log.
    """
    if not isinstance(error, IncrementalAssetsError):
        said = str(error).partition("\n")[0]
        return f"{table.name}: {type(error).__name__}: {said}. The log has the traceback."
    return str(error) if table.name in str(error) else f"{table.name}: {error}"


def failure_text(
    table: Table,
    failed: Mapping[date, DayResult],
    tables: Sequence[Table] = (),
    missing_of: Callable[[date], Sequence[str]] = lambda _: (),
) -> str:
    """Which days were not published, why, what to do, and which of the tables wait for them.

    `missing_of` gives the files that a day may have rows of and that are no longer landed.
    """
    lines = [f"{table.name}: {named(failed)} not published."]
    for day, result in list(failed.items())[:_MOST_DAYS]:
        lines.append(f"{day}: {result.reason}.")
    if len(failed) > _MOST_DAYS:
        lines.append(f"… and {counted(len(failed) - _MOST_DAYS, 'more day')}.")
    judged = (result for result in failed.values() if result.state == HELD)
    held = [entry for result in judged for entry in result.entries[-1:]]
    if held:
        missing = sorted({path for entry in held[:_MOST_DAYS] for path in missing_of(entry.day)})
        lines.append(held_until(held[0], table, tables, missing))
    return " ".join(lines)


def not_published(
    lakehouse: Lakehouse, table: Table, failed: Mapping[date, DayResult], view: LedgerView
) -> str:
    """The `failure_text` of a table of the lake, by a view of its ledger."""

    def missing_of(day: date) -> Sequence[str]:
        return missing_below(table, day, view, lakehouse.settings)

    return failure_text(table, failed, lakehouse.tables, missing_of)


def days_by_state(failed: Mapping[date, DayResult]) -> dict[str, list[str]]:
    """The days that the table's own gate holds, and those that were refused, for the metadata."""
    found: dict[str, list[str]] = {}
    for day, result in failed.items():
        found.setdefault(result.state, []).append(str(day))
    return found


def failure_in_brief(table: Table, failed: Mapping[date, DayResult]) -> str:
    """The same in names of rules and counts."""
    lines = [f"{table.name}: {named(failed)} not published."]
    lines += [f"{day}: {_why(result)}." for day, result in list(failed.items())[:_MOST_DAYS]]
    if len(failed) > _MOST_DAYS:
        lines.append(f"… and {counted(len(failed) - _MOST_DAYS, 'more day')}.")
    return " ".join(lines)


def _why(result: DayResult) -> str:
    if result.state == REFUSED:
        return "refused, because its gate or that of an upstream holds the day"
    rules = [r.rule for r in result.checks.values() if r.severity == "fail" and not r.passed]
    entry = result.entries[-1]
    counts = f"{entry.rows_quarantined} of {counted(entry.rows_read, 'row')} in quarantine"
    return f"held by {', '.join(rules)}; {counts}"
