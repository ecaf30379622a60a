"""The tables of several lakes in one code location, among assets and jobs of somebody's own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest
from pyspark.sql import SparkSession

from incremental_assets import build_definitions
from incremental_assets.errors import DefinitionError
from incremental_assets.orchestration.naming import Naming
from incremental_assets.orchestration.partitions import DAYS, RANGE_END, RANGE_START
from incremental_assets.orchestration.process import PROCESS
from incremental_assets.settings import PREFIX, Settings
from incremental_assets_tests.orchestration.test_metadata import TheSpark
from incremental_assets_tests.plan.ledgers import EVENTS, SALES

TABLES = (EVENTS, SALES)
SHOPS = ("north", "south")
DAY = "2017-01-02"
OF_THE_DAY = {RANGE_START: DAY, RANGE_END: DAY}


def shops(root: Settings) -> Mapping[str, Settings]:
    return {
        name: root.replace(lake=f"{root.lake}/{name}", landing=f"{root.landing}/{name}")
        for name in SHOPS
    }


def land(settings: Settings, day: str, *ids: str) -> None:
    folder = Path(settings.landing) / "events" / day
    folder.mkdir(parents=True, exist_ok=True)
    rows = ({"id": name, "at": f"{day}T10:00:00Z"} for name in ids)
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def project(root: Settings) -> dg.Definitions:
    """Two lakes between an export that lands their files and a report, and a job that is theirs."""
    lakes = shops(root)
    days = dg.DailyPartitionsDefinition("2017-01-01", end_offset=1)

    @dg.asset(partitions_def=days)
    def export(context) -> None:  # Dagster reads no annotation that is text
        for name, settings in lakes.items():
            land(settings, context.partition_key_range.start, f"{name}1", f"{name}2")

    @dg.asset(
        deps=[[name, "silver", "sales"] for name in lakes],
        partitions_def=days,
        required_resource_keys={"spark"},
    )
    def report(context) -> dg.MaterializeResult[Any]:
        sales = [pl.read_delta(f"{each.lake}/silver/sales")["id"] for each in lakes.values()]
        ids = sorted(pl.concat(sales))
        return dg.MaterializeResult(metadata={"ids": ids, "spark": context.resources.spark})

    @dg.op
    def verify_tables() -> None: ...

    @dg.job
    def verify() -> None:
        verify_tables()

    theirs = dg.Definitions(
        assets=[export, report],
        jobs=[verify],
        resources={"spark": "their own"},
        executor=dg.in_process_executor,
        loggers={"console": dg.json_console_logger},
    )
    ours = (
        build_definitions(
            TABLES,
            settings,
            key_prefix=[name],
            group_name=f"{name}_{{layer}}",
            deps={"bronze/events": [export]},
        )
        for name, settings in lakes.items()
    )
    return dg.Definitions.merge(theirs, *ours)


def in_the_environment() -> dg.Definitions:
    return project(Settings.from_environment())


def their_job() -> dg.JobDefinition:
    return in_the_environment().resolve_job_def("verify")


def norths_job() -> dg.JobDefinition:
    return in_the_environment().resolve_job_def("north_load_days")


@pytest.fixture
def root(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv(f"{PREFIX}LAKE", settings.lake)
    monkeypatch.setenv(f"{PREFIX}LANDING", settings.landing)
    for each in shops(settings).values():
        Path(each.landing).mkdir()
    return settings


@pytest.fixture
def stored() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp() as made:
        yield made


def test_a_run_goes_from_an_export_through_each_lake_to_a_report(
    spark: SparkSession, root: Settings, instance: dg.DagsterInstance
) -> None:
    made = project(root)
    dg.Definitions.validate_loadable(made)

    done = made.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=instance,
        tags=OF_THE_DAY,
        resources={
            **(made.resources or {}),
            **{Naming((name,)).spark: TheSpark() for name in SHOPS},
        },
    )

    (written,) = done.asset_materializations_for_node("report")
    assert written.metadata["ids"].value == ["north1", "north2", "south1", "south2"]
    assert written.metadata["spark"].value == "their own"
    for name, settings in shops(root).items():
        assert sorted(pl.read_delta(f"{settings.lake}/silver/sales")["id"])[0] == f"{name}1"
        key = dg.AssetKey([name, "silver", "sales"])
        assert instance.get_materialized_partitions(key) == {DAY}
        judged = [e for e in done.get_asset_check_evaluations() if e.asset_key == key]
        assert {e.partition for e in judged} == {DAY}
        (event,) = done.asset_materializations_for_node(f"{name}__silver__sales")
        lineage = event.metadata["dagster/column_lineage"].value
        origins = {dep.asset_key for deps in lineage.deps_by_column.values() for dep in deps}
        assert origins == {dg.AssetKey([name, "bronze", "events"])}


def test_names_are_apart_and_the_executor_and_log_of_the_project_stay(root: Settings) -> None:
    made = project(root)

    assert made.executor is dg.in_process_executor
    assert made.loggers == {"console": dg.json_console_logger}
    nodes = {node.key.to_user_string(): node for node in made.resolve_asset_graph().asset_nodes}
    assert {name: node.group_name for name, node in nodes.items()} == {
        "export": "default",
        "report": "default",
        "north/bronze/events": "north_bronze",
        "north/silver/sales": "north_silver",
        "south/bronze/events": "south_bronze",
        "south/silver/sales": "south_silver",
    }
    assert nodes["north/bronze/events"].parent_keys == {dg.AssetKey("export")}
    assert nodes["north/bronze/events"].pools == {"north_bronze_events"}


def test_jobs_of_a_lake_have_its_executor_and_others_that_of_the_project(
    root: Settings, stored: dg.DagsterInstance
) -> None:
    norths = dg.execute_job(
        dg.reconstructable(norths_job),
        stored,
        asset_selection=[dg.AssetKey(["north", "bronze", "events"])],
        tags=OF_THE_DAY,
    )
    theirs = dg.execute_job(dg.reconstructable(their_job), stored)

    assert norths.success
    assert theirs.success
    tags = [stored.get_run_by_id(run.run_id).tags for run in (norths, theirs)]  # type: ignore[union-attr]
    assert [PROCESS in each for each in tags] == [True, False]
    assert [each.get(DAYS) for each in tags] == [DAY, None]


def test_each_lake_has_sensors_of_its_own_which_request_runs_of_its_own_job(
    root: Settings, instance: dg.DagsterInstance
) -> None:
    made = project(root)
    for settings in shops(root).values():
        land(settings, DAY, "a")

    north, south = (requested(made, f"{name}_new_in_events", instance) for name in SHOPS)
    instance.add_run(
        dg.DagsterRun(
            "north_load_days",
            tags=dict(north.tags),
            status=dg.DagsterRunStatus.STARTED,
            asset_selection=frozenset(north.asset_selection or ()),
        )
    )

    assert [key.to_user_string() for key in south.asset_selection or ()] == [
        "south/bronze/events",
        "south/silver/sales",
    ]
    jobs = [made.resolve_sensor_def(f"{name}_new_in_events").job_name for name in SHOPS]
    assert jobs == ["north_load_days", "south_load_days"]
    assert requested(made, "south_new_in_events", instance).run_key == south.run_key
    assert tick(made, "north_new_in_events", instance).skip_message == (
        f"bronze/events: A run over {DAY} is in progress."
    )


def requested(made: dg.Definitions, name: str, instance: dg.DagsterInstance) -> dg.RunRequest:
    (request,) = tick(made, name, instance).run_requests or ()
    return request


def tick(made: dg.Definitions, name: str, instance: dg.DagsterInstance) -> Any:
    context = dg.build_sensor_context(instance, definitions=made)
    return made.resolve_sensor_def(name).evaluate_tick(context)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key_prefix": "a/b c"}, "'b c' cannot be used in key_prefix: expected letters"),
        ({"name_prefix": "2nd"}, "'2nd' cannot be used in name_prefix: .* no digit first"),
        ({"group_name": "{table}"}, "'{table}' cannot be used in group_name: .* or {layer}"),
        ({"deps": {"bronze/event": ["export"]}}, "'bronze/event'; did you mean bronze/events?"),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)
def test_what_cannot_be_a_name_is_refused(
    settings: Settings, options: Mapping[str, Any], message: str
) -> None:
    with pytest.raises(DefinitionError, match=message):
        build_definitions(TABLES, settings, **options)


def test_a_prefix_of_several_parts_may_be_one_text(settings: Settings) -> None:
    made = build_definitions([EVENTS, SALES], settings, key_prefix="a/b")

    keys = {node.key for node in made.resolve_asset_graph().asset_nodes}
    assert keys == {dg.AssetKey(["a", "b", *t.name.split("/")]) for t in (EVENTS, SALES)}
