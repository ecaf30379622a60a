"""The manual operations of an incident as jobs: launched from the UI, with a reason as config."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import dagster as dg
from pydantic import Field

from incremental_assets.catalog import table_named, tables
from incremental_assets.days import DayRange, batch_or_moment, named, parse_day, parse_days
from incremental_assets.lakehouse import TableLoadResult
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.operations import accept as accepting
from incremental_assets.operations import restate as restating
from incremental_assets.operations import retract as retracting
from incremental_assets.operations.failure_texts import (
    error_in_brief,
    error_of,
    failure_in_brief,
    not_published,
)
from incremental_assets.operations.quarantined import QuarantineFilter, days_in_quarantine
from incremental_assets.operations.rewind import TableRewind
from incremental_assets.orchestration.events import days_alone, evaluations, still_held
from incremental_assets.orchestration.failures import failure, why_step_failed
from incremental_assets.orchestration.instance import open_instance
from incremental_assets.orchestration.manual_jobs import JobStep, ManualJob
from incremental_assets.orchestration.metadata import shown
from incremental_assets.orchestration.naming import Naming
from incremental_assets.orchestration.runs import RunnableJob, run_here
from incremental_assets.settings import Settings
from incremental_assets.table import Table

# A table that could not be loaded, and why.
TableError: TypeAlias = tuple[Table, Exception]
_TABLE = "A table, such as silver/sales."
DAYS = "A day or a range, such as 2017-01-01...2017-01-31; all days if it is empty."
_REASON = "The reason; the ledger records it."


class RestateConfig(dg.Config):
    """What is to be rebuilt."""

    tables: list[str] = Field(description="Silver or gold tables, such as silver/sales.")
    days: str = Field("", description=DAYS)
    why: str = Field(description=_REASON)


class ReplayConfig(dg.Config):
    """Which rows in quarantine are to be replayed."""

    table: str = Field(description=_TABLE)
    days: str = Field("", description=DAYS)
    rule: str = Field("", description="Only rows with this reason; all if it is empty.")


class RewindConfig(dg.Config):
    """How far a watermark is to be lowered."""

    table: str = Field(description=_TABLE)
    to: str = Field(
        description="The batch that is to be the last again (0: none), or a moment (UTC, such as "
        "2017-01-05T10:00) at which it was."
    )
    days: str = Field("", description=DAYS)
    reason: str = Field(description=_REASON)


class RetractConfig(dg.Config):
    """Which landed files are to be retracted."""

    files: list[str] = Field(
        description="Files below the landing root, such as events/2017-01-05/part-0.jsonl, that "
        "are no longer landed."
    )
    why: str = Field(description=_REASON)


class AcceptConfig(dg.Config):
    """Which held day is to be accepted."""

    table: str = Field(description=_TABLE)
    day: str = Field(description="The held day, such as 2017-01-05.")
    reason: str = Field(description=_REASON)


def _restate(step: JobStep) -> Iterator[Any]:
    lakehouse, config = step.lakehouse, step.config
    chosen = [table_named(lakehouse.tables, name) for name in config.tables]
    asked = days_asked_for(config.days)
    restating.require_loaded(chosen, asked, lakehouse.ledger.view())
    days = restating.days_to_restate(lakehouse, chosen, asked)
    done = restating.restate(lakehouse, chosen, days, config.why, step.run_id)
    yield from report(step, done)


def _replay(step: JobStep) -> Iterator[Any]:
    lakehouse, config = step.lakehouse, step.config
    table = table_named(lakehouse.tables, config.table)
    which = QuarantineFilter(days_asked_for(config.days), config.rule)
    days = list(days_in_quarantine(lakehouse.settings, table, which))
    yield from report(step, [lakehouse.replay(table, days, config.rule, step.run_id)])


def _rewind(step: JobStep) -> Iterator[Any]:
    config = step.config
    table = table_named(step.lakehouse.tables, config.table)
    to = batch_or_moment(config.to)
    rewound = TableRewind(step.lakehouse, table)
    done = rewound.record(to, config.reason, days_asked_for(config.days))
    step.context.log.info(f"{done.table}: {named(done.days)} are back at batch {done.to}.")
    days = [str(day) for day in done.days]
    step.context.add_output_metadata({"batch": done.to, "days": days})
    yield from ()


def _accept(step: JobStep) -> Iterator[Any]:
    config = step.config
    table = table_named(step.lakehouse.tables, config.table)
    done = accepting.accept(step.lakehouse, table, parse_day(config.day), config.reason)
    rules = ", ".join(done.rules)
    step.context.log.info(f"{table.name} {named(done.days)}: batch {done.batch} is accepted.")
    step.context.add_output_metadata({"batch": done.batch, "rules": rules})
    yield from ()


def _retract(step: JobStep) -> Iterator[Any]:
    config = step.config
    done = retracting.retract(step.lakehouse, config.files, config.why, step.run_id)
    yield from report(step, done)


INCIDENT_JOBS = (
    ManualJob(
        name="restate",
        op="restate_days",
        description="Rebuild days of silver or gold tables from what bronze keeps, and all that "
        "depends on them: after the code or a contract changed, or where a table is not trusted.",
        op_description="Rebuilds days of tables, upstreams first, then what depends on them.",
        config=RestateConfig,
        run=_restate,
    ),
    ManualJob(
        name="replay",
        op="replay_rows",
        description="Replay rows in quarantine, after a rule or a contract was corrected. Rows "
        "that pass are merged like late data; what depends on them is then stale.",
        op_description="Sends rows in quarantine through the rules and the code of today.",
        config=ReplayConfig,
        run=_replay,
    ),
    ManualJob(
        name="rewind",
        op="rewind_table",
        description="Lower the watermark of a table: the next run loads again what its later "
        "batches loaded. No row is removed before that load, and the old entries stay.",
        op_description="Lowers a watermark; the next run loads again what was loaded since.",
        config=RewindConfig,
        run=_rewind,
    ),
    ManualJob(
        name="accept",
        op="accept_day",
        description="Accept a held day although its rules failed: once, for the input that they "
        "judged; the ledger keeps the reason.",
        op_description="Accepts a held day, once, as it was judged; the next run publishes it.",
        config=AcceptConfig,
        run=_accept,
    ),
    ManualJob(
        name="retract",
        op="retract_files",
        description="Retract landed files that should never have landed, and are no longer there: "
        "their rows leave bronze, and the days that are built on them are rebuilt.",
        op_description="Removes the rows of landed files, then rebuilds what is built on them.",
        config=RetractConfig,
        run=_retract,
    ),
)


def run_restate(
    job: RunnableJob, settings: Settings, names: Sequence[str], days: str, why: str
) -> str:
    """Run the job `restate` in this process, over the instance; what failed, or "".

    Raises KeyboardInterrupt if the run was interrupted.
    """
    chosen = [table_named(tables(), name) for name in names]
    view = Ledger(ledger_path(settings.lake)).view_if_any()
    restating.require_loaded(chosen, days_asked_for(days), view)  # before a run is created
    config = {"tables": list(names), "days": days, "why": why}
    return _run(job, settings, "restate_days", config)


def run_retract(job: RunnableJob, settings: Settings, files: Sequence[str], why: str) -> str:
    """Run the job `retract` in this process, over the instance; what failed, or "".

    Raises KeyboardInterrupt if the run was interrupted, and an IncrementalAssetsError, before a run
    is created, where the files cannot be retracted.
    """
    view = Ledger(ledger_path(settings.lake)).view_if_any()
    retracting.retractions_of(files, tables(), view, settings)
    return _run(job, settings, "retract_files", {"files": list(files), "why": why})


def _run(job: RunnableJob, settings: Settings, step: str, config: Mapping[str, Any]) -> str:
    op = Naming.of(settings).own(step)
    result = run_here(job, open_instance(settings), {"ops": {op: {"config": config}}})
    for event in result.get_step_failure_events():
        return why_step_failed(event, result.run_id)
    if result.success:
        return ""
    return f"run {result.run_id} ended before any of its steps failed; see its log"


def report(
    step: JobStep, done: Iterable[TableLoadResult], errors: Sequence[TableError] = ()
) -> Iterator[Any]:
    """Yield the events of the assets; raise a Failure that names the days that failed.

    `errors` are those of tables that could not be loaded; more may be added while loads are `done`.
    """
    lakehouse, naming = step.lakehouse, step.naming
    failed, briefs = [], []
    for result in done:
        table = table_named(lakehouse.tables, result.table)
        view = lakehouse.ledger.view()
        history = view.table(table.name)
        after = shown(table, lakehouse.settings.lake, history, naming)
        yield from evaluations(naming.key(table), table, result)
        yield from still_held(naming.key(table), table, history)
        yield from days_alone(naming.key(table), table, result, after)
        if result.failed:
            failed.append(not_published(lakehouse, table, result.failed, view))
            briefs.append(failure_in_brief(table, result.failed))
    failed += dict.fromkeys(error_of(table, error) for table, error in errors)
    briefs += dict.fromkeys(f"{table.name}: {error_in_brief(error)}" for table, error in errors)
    if failed:
        raise failure(" ".join(failed), " ".join(briefs))


def days_asked_for(text: str) -> DayRange | None:
    return parse_days(text) if text else None
