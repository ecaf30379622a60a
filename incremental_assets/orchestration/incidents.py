"""The manual operations of an incident as jobs: launched from the UI, with a reason as config."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dagster as dg
from pydantic import Field

from incremental_assets.catalog import table_named, tables
from incremental_assets.days import DayRange, batch_or_moment, named, parse_day, parse_days
from incremental_assets.errors import IncrementalAssetsError
from incremental_assets.lakehouse import Lakehouse, TableLoadResult
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.operations import accept as accepting
from incremental_assets.operations import restate as restating
from incremental_assets.operations.quarantined import QuarantineFilter, days_in_quarantine
from incremental_assets.operations.rewind import TableRewind
from incremental_assets.orchestration.events import (
    days_alone,
    evaluations,
)
from incremental_assets.orchestration.failures import (
    failure,
    failure_in_brief,
    failure_of,
    failure_text,
)
from incremental_assets.orchestration.instance import open_instance
from incremental_assets.orchestration.metadata import shown
from incremental_assets.orchestration.resources import LakehouseResource, SparkResource
from incremental_assets.orchestration.runs import RunnableJob, run_here
from incremental_assets.settings import Settings

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


class AcceptConfig(dg.Config):
    """Which held day is to be accepted."""

    table: str = Field(description=_TABLE)
    day: str = Field(description="The held day, such as 2017-01-05.")
    reason: str = Field(description=_REASON)


@dg.op(description="Rebuilds days of tables, upstreams first, then what depends on them.")
def restate_days(
    context: dg.OpExecutionContext,
    config: RestateConfig,
    spark: SparkResource,
    lakehouse: dg.ResourceParam[LakehouseResource],
) -> Iterator[Any]:
    with as_failures():
        opened = lakehouse.open(spark, context.log.info)
        chosen = [table_named(opened.tables, name) for name in config.tables]
        asked = days_asked_for(config.days)
        restating.require_loaded(chosen, asked, opened.ledger.view())
        days = restating.days_to_restate(opened, chosen, asked)
        done = restating.restate(opened, chosen, days, config.why, context.run_id)
        yield from report(opened, done)


@dg.op(description="Sends rows in quarantine through the rules and the code of today.")
def replay_rows(
    context: dg.OpExecutionContext,
    config: ReplayConfig,
    spark: SparkResource,
    lakehouse: dg.ResourceParam[LakehouseResource],
) -> Iterator[Any]:
    with as_failures():
        opened = lakehouse.open(spark, context.log.info)
        table = table_named(opened.tables, config.table)
        days = list(
            days_in_quarantine(
                opened.settings, table, QuarantineFilter(days_asked_for(config.days), config.rule)
            )
        )
        yield from report(opened, [opened.replay(table, days, config.rule, context.run_id)])


@dg.op(description="Lowers a watermark; the next run loads again what was loaded since.")
def rewind_table(
    context: dg.OpExecutionContext,
    config: RewindConfig,
    lakehouse: dg.ResourceParam[LakehouseResource],
) -> None:
    with as_failures():
        opened = lakehouse.open(SparkResource(), context.log.info)  # which it does not start
        table = table_named(opened.tables, config.table)
        to = batch_or_moment(config.to)
        done = TableRewind(opened, table).record(to, config.reason, days_asked_for(config.days))
        context.log.info(f"{done.table}: {named(done.days)} are back at batch {done.to}.")
        context.add_output_metadata({"batch": done.to, "days": [str(day) for day in done.days]})


@dg.op(description="Accepts a held day, once, as it was judged; the next run publishes it.")
def accept_day(
    context: dg.OpExecutionContext,
    config: AcceptConfig,
    lakehouse: dg.ResourceParam[LakehouseResource],
) -> None:
    with as_failures():
        opened = lakehouse.open(SparkResource(), context.log.info)  # which it does not start
        table = table_named(opened.tables, config.table)
        done = accepting.accept(opened, table, parse_day(config.day), config.reason)
        rules = ", ".join(done.rules)
        context.log.info(f"{table.name} {named(done.days)}: batch {done.batch} is accepted.")
        context.add_output_metadata({"batch": done.batch, "rules": rules})


@dg.job(
    description="Rebuild days of silver or gold tables from what bronze keeps, and all that "
    "depends on them: after the code or a contract changed, or where a table is not trusted."
)
def restate() -> None:
    restate_days()


@dg.job(
    description="Replay rows in quarantine, after a rule or a contract was corrected. Rows that "
    "pass are merged like late data; what depends on them is then stale."
)
def replay() -> None:
    replay_rows()


@dg.job(
    description="Lower the watermark of a table: the next run loads again what its later batches "
    "loaded. No row is removed before that load, and the old entries stay."
)
def rewind() -> None:
    rewind_table()


@dg.job(
    description="Accept a held day although its rules failed: once, for the input that they "
    "judged; the ledger keeps the reason."
)
def accept() -> None:
    accept_day()


INCIDENT_JOBS = (restate, replay, rewind, accept)


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
    result = run_here(job, open_instance(settings), {"ops": {"restate_days": {"config": config}}})
    for event in result.get_step_failure_events():
        failure = event.step_failure_data.user_failure_data
        return (failure.description if failure else None) or "the run failed; see its log"
    return "" if result.success else "the run ended before any of its steps failed; see its log"


def report(lakehouse: Lakehouse, done: Iterable[TableLoadResult]) -> Iterator[Any]:
    """Yield the events of the assets; raise a Failure that names the days that failed."""
    failed, briefs = [], []
    for result in done:
        table = table_named(lakehouse.tables, result.table)
        history = lakehouse.ledger.view().table(table.name)
        yield from evaluations(table, result)
        yield from days_alone(table, result, shown(table, lakehouse.settings.lake, history))
        if result.failed:
            failed.append(failure_text(table, result.failed, lakehouse.tables))
            briefs.append(failure_in_brief(table, result.failed))
    if failed:
        raise failure(" ".join(failed), " ".join(briefs))
    yield dg.Output(None)


@contextmanager
def as_failures() -> Iterator[None]:
    """Raises what the project raises on purpose as a Dagster failure with the same message."""
    try:
        yield
    except IncrementalAssetsError as error:
        raise failure_of(error) from error


def days_asked_for(text: str) -> DayRange | None:
    return parse_days(text) if text else None
