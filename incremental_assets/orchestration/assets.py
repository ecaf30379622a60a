"""Tables as software-defined assets: a load is a step, and its rules are the asset's checks."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeAlias

import dagster as dg

from incremental_assets.catalog import table_named
from incremental_assets.days import named, utc_today
from incremental_assets.errors import IncrementalAssetsError
from incremental_assets.lakehouse import Lakehouse, TableLoadResult
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.ledger.view import LedgerView
from incremental_assets.operations.failure_texts import (
    days_by_state,
    failure_in_brief,
    not_published,
)
from incremental_assets.orchestration.events import (
    days_alone,
    evaluations,
    judged_before_the_last_day,
    still_held,
)
from incremental_assets.orchestration.failures import failure, failure_of
from incremental_assets.orchestration.metadata import (
    STORAGE,
    definition_metadata,
    definition_tags,
    description,
    shown,
)
from incremental_assets.orchestration.naming import ALONE, Naming
from incremental_assets.orchestration.partitions import daily, days_of, last_day
from incremental_assets.orchestration.resources import opened
from incremental_assets.plan import stale_days
from incremental_assets.settings import Settings
from incremental_assets.table import Table

Key: TypeAlias = dg.AssetKey | str | Sequence[str]
Dep: TypeAlias = dg.AssetsDefinition | dg.AssetSpec | dg.AssetDep | Key
# Assets of others that a table is built on, by the name of the table.
Deps: TypeAlias = Mapping[str, Sequence[Dep]]


def incremental_assets(
    tables: Sequence[Table],
    settings: Settings,
    naming: Naming = ALONE,
    deps: Deps | None = None,
    partitions: dg.PartitionsDefinition[str] | None = None,
) -> list[dg.AssetsDefinition]:
    """One asset per table. Raises DefinitionError for dependencies of a table that is not there.

    Without `partitions`, they are the days of the settings, up to the last that is known.
    """
    others = {table_named(tables, name).name: keys for name, keys in (deps or {}).items()}
    partitions = partitions or daily(settings, last_day(tables, settings))
    return [
        _asset(table, settings, partitions, naming, others.get(table.name, ())) for table in tables
    ]


def _asset(
    table: Table,
    settings: Settings,
    partitions: dg.PartitionsDefinition[str],
    naming: Naming,
    deps: Iterable[Dep],
) -> dg.AssetsDefinition:
    key = naming.key(table)
    with warnings.catch_warnings():
        # The backfill policy is Dagster's own answer to ranges, and beta for years.
        warnings.simplefilter("ignore", dg.BetaWarning)

        @dg.asset(
            key=key,
            description=description(table),
            metadata=definition_metadata(table, settings.lake),
            tags=definition_tags(table),
            freshness_policy=_freshness(table, settings),
            partitions_def=partitions,
            backfill_policy=dg.BackfillPolicy.single_run(),
            deps=[*_deps(table, naming), *deps],
            check_specs=[
                dg.AssetCheckSpec(
                    name,
                    asset=key,
                    description=check.description,
                    blocking=check.blocking,
                    metadata={
                        "severity": check.severity,
                        "owner": check.owner or ", ".join(table.owners),
                    },
                )
                for name, check in table.checks().items()
            ],
            group_name=naming.group(table.layer),
            owners=list(table.owners),
            kinds={"pyspark", STORAGE, table.layer},
            code_version=table.code_version,
            pool=naming.own(table.name.replace("/", "_")),
            required_resource_keys=naming.resources,
        )
        def load(context: dg.AssetExecutionContext) -> Iterator[Any]:
            yield from _load(context, opened(context, naming), table, naming)

    return load


def _freshness(table: Table, settings: Settings) -> dg.FreshnessPolicy | None:
    """The policy that any day was published within a time; it warns at three quarters of it."""
    within = table.fresh_in(timedelta(hours=settings.fresh_hours))
    if within is None:
        return None
    return dg.FreshnessPolicy.time_window(fail_window=within, warn_window=within * 3 / 4)


def _deps(table: Table, naming: Naming) -> list[dg.AssetDep]:
    """The tables that it reads, and those that its rules read: of each, the same day."""
    names = dict.fromkeys([*(u.table.name for u in table.upstreams), *sorted(table.rule_tables)])
    same_day = dg.IdentityPartitionMapping()
    return [dg.AssetDep(naming.key(name), partition_mapping=same_day) for name in names]


def _load(
    context: dg.AssetExecutionContext, lakehouse: Lakehouse, table: Table, naming: Naming
) -> Iterator[Any]:
    try:
        result = lakehouse.load(table, days_of(context), context.run.run_id)
    except IncrementalAssetsError as error:
        raise failure_of(error) from error
    yield from evaluations(naming.key(table), table, result)
    view = lakehouse.ledger.view()
    history = view.table(table.name)
    yield from still_held(naming.key(table), table, history)
    after = shown(table, lakehouse.settings.lake, history, naming)
    if all(day.state == "idle" for day in result.days.values()):
        context.log.info(_nothing_new(table, result, history))
    _log_stale(context, lakehouse, table, view)
    if result.failed:
        yield from judged_before_the_last_day(naming.key(table), table, result, history)
        yield from days_alone(naming.key(table), table, result, after)
        raise failure(
            not_published(lakehouse, table, result.failed, view),
            failure_in_brief(table, result.failed),
            **days_by_state(result.failed),
        )
    for day, day_result in result.days.items():
        context.add_asset_metadata(after.day(day_result), partition_key=str(day))
    for check in sorted(context.selected_asset_check_keys):
        yield dg.Output(None, output_name=f"{check.asset_key.to_python_identifier()}_{check.name}")
    version = dg.DataVersion(after.data_version(result.days))
    yield dg.MaterializeResult(data_version=version, metadata=after.whole)


def _nothing_new(table: Table, result: TableLoadResult, history: TableHistory) -> str:
    """That a load had nothing to do, and how far the table is."""
    last = max(history.last_committed, default=None)
    there = f"the table has days up to {last}" if last else "the table has no day yet"
    return f"{table.name}: nothing new for {named(result.days)}; {there}"


def _log_stale(
    context: dg.AssetExecutionContext, lakehouse: Lakehouse, table: Table, view: LedgerView
) -> None:
    """Log the other stale days of the table; the run loads only its own."""
    own, start = set(context.partition_keys), lakehouse.settings.start_date
    stale = [
        day
        for day in stale_days(table, view, start, utc_today(lakehouse.now()))
        if str(day) not in own
    ]
    if stale:
        context.log.info(
            f"{table.name}: stale, and not in this run: {named(stale)}; `incremental-assets run` "
            "brings all that is stale up to date"
        )
