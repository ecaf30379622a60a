"""Failures of runs: in full for the run's log, and in brief for alerts.

The message of a failure may quote the data: a key, a value, the name of a field. An alert leaves
the system, so it is built from what cannot hold any data: declared names of tables and rules, days,
counts, and what a kind of error means.
"""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from datetime import date

import dagster as dg

from incremental_assets.days import named
from incremental_assets.errors import IncrementalAssetsError
from incremental_assets.lakehouse import DayResult
from incremental_assets.plan.skipped import held_until
from incremental_assets.plurals import counted
from incremental_assets.table import Table

BRIEF = "incremental_assets/in_brief"
HELD, REFUSED = "held", "refused"
_MOST_DAYS = 5
_FRAME = re.compile(r'File "(.+)", line (\d+)')
_OF_OTHERS = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


def failure(text: str, brief: str, **metadata: list[str]) -> dg.Failure:
    """A failure that Dagster does not retry, with what an alert may contain of it."""
    return dg.Failure(text, metadata={BRIEF: brief, **metadata}, allow_retries=False)


def failure_of(error: IncrementalAssetsError) -> dg.Failure:
    """An error that the project raised on purpose; in brief it is what its kind means."""
    return failure(str(error), error_in_brief(error))


def error_in_brief(error: Exception) -> str:
    """What an alert may contain of an error: what its kind means."""
    kind = type(error)
    meaning = (kind.__doc__ or "").partition("\n")[0]
    return f"{kind.__name__}: {meaning}".strip()


def error_of(table: Table, error: Exception) -> str:
    """The message of an error, which names the table that it is about."""
    if not isinstance(error, IncrementalAssetsError):
        return f"{table.name}: {type(error).__name__}: {error}. The run's log has the traceback."
    return str(error) if table.name in str(error) else f"{table.name}: {error}"


def why_step_failed(event: dg.DagsterEvent, run_id: str) -> str:
    """The message of a step's failure; of an unforeseen error its class, message and line."""
    data = event.step_failure_data
    if data.user_failure_data and data.user_failure_data.description:
        return data.user_failure_data.description
    if data.error is None:
        return f"{_step(event)} failed; the log of run {run_id} shows why."
    error = data.error.cause or data.error  # Dagster wraps what a step raises
    what = (line for line in error.message.splitlines() if line and not line.startswith(" "))
    where = _line_of_code(error.stack)
    return (
        f"{_step(event)}: {next(what, error.cls_name)}{f' ({where})' if where else ''}. The log of "
        f"run {run_id} has the traceback."
    )


def _step(event: dg.DagsterEvent) -> str:
    """The name of a step; of an asset that is its table."""
    return (event.step_key or "").replace("__", "/")


def _line_of_code(stack: Sequence[str]) -> str:
    """The innermost line of a traceback that is not of Python or an installed package."""
    frames = [found.groups() for found in map(_FRAME.search, stack) if found]
    own = [frame for frame in frames if not frame[0].startswith(_OF_OTHERS)]
    return next((f"{file}, line {line}" for file, line in reversed(own or frames)), "")


def failure_text(
    table: Table,
    failed: Mapping[date, DayResult],
    tables: Sequence[Table] = (),
    gone_of: Callable[[date], Sequence[str]] = lambda _: (),
) -> str:
    """Which days were not published, why, what to do, and which of the tables wait for them.

    `gone_of` gives the files that a day may have rows of and that are no longer landed.
    """
    lines = [f"{table.name}: {named(failed)} not published."]
    for day, result in list(failed.items())[:_MOST_DAYS]:
        lines.append(f"{day}: {result.reason}.")
    if len(failed) > _MOST_DAYS:
        lines.append(f"… and {counted(len(failed) - _MOST_DAYS, 'more day')}.")
    judged = (result for result in failed.values() if result.state == HELD)
    held = [entry for result in judged for entry in result.entries[-1:]]
    if held:
        gone = sorted({path for entry in held[:_MOST_DAYS] for path in gone_of(entry.day)})
        lines.append(held_until(held[0], table, tables, gone))
    return " ".join(lines)


def days_by_state(failed: Mapping[date, DayResult]) -> dict[str, list[str]]:
    """The days that the table's own gate holds, and those that were refused, for the metadata."""
    found: dict[str, list[str]] = {}
    for day, result in failed.items():
        found.setdefault(result.state, []).append(str(day))
    return found


def says_only_what_is_held(metadata: Mapping[str, dg.MetadataValue]) -> bool:
    """Whether a failure says no more than that the table's own gate holds days."""
    return HELD in metadata and REFUSED not in metadata


def failure_in_brief(table: Table, failed: Mapping[date, DayResult]) -> str:
    """The same in names of rules and counts."""
    lines = [f"{table.name}: {named(failed)} not published."]
    lines += [f"{day}: {_why(result)}." for day, result in list(failed.items())[:_MOST_DAYS]]
    if len(failed) > _MOST_DAYS:
        lines.append(f"… and {counted(len(failed) - _MOST_DAYS, 'more day')}.")
    return " ".join(lines)


def brief_of(metadata: Mapping[str, dg.MetadataValue]) -> str:
    """What an alert may contain of a failure, from its metadata; "" if there is nothing."""
    brief = metadata.get(BRIEF)
    return str(brief.value) if brief is not None else ""


def _why(result: DayResult) -> str:
    if result.state == REFUSED:
        return "refused, because its gate or that of an upstream holds the day"
    rules = [r.rule for r in result.checks.values() if r.severity == "fail" and not r.passed]
    entry = result.entries[-1]
    counts = f"{entry.rows_quarantined} of {counted(entry.rows_read, 'row')} in quarantine"
    return f"held by {', '.join(rules)}; {counts}"
