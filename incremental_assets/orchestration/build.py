"""Everything that Dagster shows and runs of a set of tables."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from incremental_assets.orchestration.alerts import alert_sensors
from incremental_assets.orchestration.assets import Deps, incremental_assets
from incremental_assets.orchestration.console import console
from incremental_assets.orchestration.downstream import Downstream, LakeAssets
from incremental_assets.orchestration.due import LOAD_DUE
from incremental_assets.orchestration.executor import executor_for
from incremental_assets.orchestration.incidents import INCIDENT_JOBS
from incremental_assets.orchestration.load_days import load_days_job
from incremental_assets.orchestration.maintenance import MAINTENANCE, daily_maintenance
from incremental_assets.orchestration.naming import Naming
from incremental_assets.orchestration.partitions import daily, last_day
from incremental_assets.orchestration.resources import LakehouseResource, SparkResource
from incremental_assets.orchestration.sensors import stale_days_sensors
from incremental_assets.orchestration.source_sensors import source_sensors
from incremental_assets.orchestration.verification import VERIFY
from incremental_assets.settings import Settings
from incremental_assets.table import Table

_BY_HAND = (LOAD_DUE, *INCIDENT_JOBS, VERIFY)


def build_definitions(
    tables: Sequence[Table],
    settings: Settings | None = None,
    *,
    key_prefix: str | Sequence[str] | None = None,
    group_name: str = "{layer}",
    name_prefix: str | None = None,
    deps: Deps | None = None,
    downstream: Sequence[Downstream] = (),
) -> dg.Definitions:
    """The tables as assets with their checks, and the sensors, jobs and schedule that go with them.

    They can be merged with any others. The jobs, and with them the runs that sensors request, have
    the executor that the Spark of the settings needs; that of the code location is not set. All
    names begin with `key_prefix`: with "retail" an asset is ["retail", "silver", "sales"] and a
    job `retail_load_days`, so several lakes fit into one code location. `name_prefix` is another
    beginning of the names of jobs, sensors, pools and resources. `group_name` is the group of the
    assets; `{layer}` in it is bronze, silver or gold. `deps` are assets of your own that tables are
    built on, by table: {"bronze/orders": [export_of_orders]}. Each of `downstream` makes
    definitions that are built on the tables, under the same names, and they are merged.

    `tables` come upstreams first, as `tables_of(package)` gives them. Without `settings`, those of
    the environment; without `key_prefix`, that of the settings. A SettingsError names a setting
    that cannot be used, a DefinitionError a prefix or a group that is no name, or a table that is
    not there.
    """
    settings = settings or Settings.from_environment()
    naming = Naming(_parts(key_prefix, settings), group_name, name_prefix)
    executor = executor_for(settings)
    load_days = load_days_job(tables, executor, naming)
    maintenance = MAINTENANCE.definition(naming, executor)
    jobs = [
        load_days,
        *(job.definition(naming, executor) for job in _BY_HAND),
        maintenance,
    ]
    partitions = daily(settings, last_day(tables, settings))
    built_on = LakeAssets(tuple(tables), settings, naming, partitions)
    loads = dg.Definitions(
        assets=incremental_assets(tables, settings, naming, deps, partitions),
        jobs=jobs,
        schedules=[daily_maintenance(maintenance, naming)],
        sensors=[
            *source_sensors(tables, settings, load_days, naming=naming),
            *stale_days_sensors(tables, settings, load_days, naming=naming),
            *alert_sensors(tables, settings, [job.name for job in jobs], naming),
        ],
        resources={
            naming.spark: SparkResource(),
            naming.lakehouse: LakehouseResource(tuple(tables), settings),
        },
    )
    further = [make(built_on) for make in downstream]
    return dg.Definitions.merge(loads, *further) if further else loads


def code_location(
    tables: Sequence[Table],
    settings: Settings | None = None,
    downstream: Sequence[Downstream] = (),
) -> dg.Definitions:
    """The same as a code location of its own: with its executor for every run, and its log lines.

    So a run of single assets, or a backfill, from the UI shares one Spark, too. A code location has
    one executor for all that is in it, which is why `build_definitions`, whose result may be merged
    with other assets, sets none.
    """
    settings = settings or Settings.from_environment()
    return dg.Definitions.merge(
        build_definitions(tables, settings, downstream=downstream),
        dg.Definitions(executor=executor_for(settings), loggers={"console": console}),
    )


def _parts(key_prefix: str | Sequence[str] | None, settings: Settings) -> tuple[str, ...]:
    if key_prefix is None:
        return Naming.of(settings).key_prefix
    return tuple(filter(None, key_prefix.split("/")) if isinstance(key_prefix, str) else key_prefix)
