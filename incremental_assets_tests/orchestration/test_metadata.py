"""What a load shows, read from the events of a real instance: single day, range, held, idle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl
import pytest
from pyspark.sql import SparkSession

from incremental_assets import build_definitions
from incremental_assets.catalog import tables
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.orchestration import metadata
from incremental_assets.orchestration.assets import incremental_assets
from incremental_assets.orchestration.naming import ALONE
from incremental_assets.orchestration.partitions import RANGE_END, RANGE_START
from incremental_assets.orchestration.resources import LakehouseResource, SparkResource
from incremental_assets.retail.reports import reports
from incremental_assets.retail.reports.charts import full
from incremental_assets.settings import PROJECT_ROOT, Settings
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets_tests.event_log import EventLog, jobs
from incremental_assets_tests.plan.ledgers import EVENTS, jan
from incremental_assets_tests.scenarios.test_cost import LATER
from incremental_assets_tests.scenarios.world import World, sale, sales

D5, D6 = "2017-01-05", "2017-01-06"
REPORT = "reports/pipeline_health"
NUMBERS = (int, float)


class TheSpark(SparkResource):
    """The session of the tests."""

    def session(self, settings: Settings) -> SparkSession:
        found = SparkSession.getActiveSession()
        assert found is not None
        return found


@dataclass
class Runs:
    """Runs of the real assets in this process, and the events that they left."""

    world: World
    instance: dg.DagsterInstance

    def __post_init__(self) -> None:
        made = dg.Definitions(
            assets=incremental_assets(tables(), self.world.settings),
            resources={
                ALONE.spark: TheSpark(),
                ALONE.lakehouse: LakehouseResource(tables(), self.world.settings),
            },
            executor=dg.in_process_executor,
        )
        self._job = made.resolve_implicit_global_asset_job_def()

    def load(self, names: Sequence[str], first: str, last: str = "") -> bool:
        tags = {RANGE_START: first, RANGE_END: last} if last else {"dagster/partition": first}
        return self._job.execute_in_process(
            instance=self.instance,
            asset_selection=[dg.AssetKey(name.split("/")) for name in names],
            tags=tags,
            raise_on_error=False,
        ).success

    def event(self, name: str, day: str) -> dg.AssetMaterialization:
        """The newest materialization of a day of a table."""
        records = self.instance.fetch_materializations(
            dg.AssetRecordsFilter(dg.AssetKey(name.split("/")), asset_partitions=[day]), limit=1
        ).records
        found = records[0].asset_materialization
        assert found is not None
        return found

    def shows(self, name: str, day: str) -> Mapping[str, Any]:
        found = self.event(name, day).metadata
        return {key: getattr(value, "value", value) for key, value in found.items()}

    def check(self, name: str, rule: str, day: str) -> Mapping[str, Any]:
        """What the evaluation of a rule on a day shows."""
        for run in self.instance.get_runs():
            for record in self.instance.get_records_for_run(
                run.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION
            ).records:
                event = record.event_log_entry.dagster_event
                assert event is not None
                found = event.asset_check_evaluation_data
                of = (found.asset_key.to_user_string(), found.check_name, found.partition)
                if of == (name, rule, day):
                    return {key: value.value for key, value in found.metadata.items()}
        raise AssertionError(f"{rule} was not evaluated on {day}")

    def data_version(self, name: str, day: str) -> str:
        return (self.event(name, day).tags or {})["dagster/data_version"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Runs]:
    """A good day and a held one in one range, gold of the good one, and nothing new once more."""
    folder = tmp_path_factory.mktemp("shown")
    with pytest.MonkeyPatch.context() as environment, dg.DagsterInstance.ephemeral() as instance:
        environment.setenv("INCREMENTAL_ASSETS_LAKE", str(folder / "lake"))
        environment.setenv("INCREMENTAL_ASSETS_LANDING", str(folder / "landing"))
        world = World(spark, Settings.from_environment())
        bad = sale("bad", D5, qty=-1)
        world.land("events", D5, "a.jsonl", [*sales("a", D5, 40), bad])
        late = sale("late", D5)
        world.land("events", D6, "b.jsonl", [*sales("b", D6, 3), sale("c", D6, qty=-1), late])
        made = Runs(world, instance)
        assert not made.load(["bronze/events", "silver/sales"], D5, D6)
        assert made.load(["gold/sales_mart", "gold/daily_product_sales"], D5)
        yield made


def test_counts_times_and_sizes_are_numbers_that_can_be_plotted(runs: Runs) -> None:
    shown = runs.shows("silver/sales", D5)

    numbers = {name: value for name, value in shown.items() if isinstance(value, NUMBERS)}
    expected = {
        "dagster/row_count": 41,
        "dagster/partition_row_count": 41,
        "batch": 1,
        "rows_read": 42,
        "rows_inserted": 41,
        "rows_updated": 0,
        "rows_deleted": 0,
        "rows_quarantined": 1,
        "rows_late": 1,
        "quarantined/qty_at_least_0": 1,
        "watermark_low/bronze/events": 0,
        "watermark_high/bronze/events": 1,
    }
    assert {name: numbers[name] for name in expected} == expected
    assert numbers["seconds"] > 0
    assert numbers["partition_bytes"] == numbers["table_bytes"] > 0
    assert (numbers["partition_files"], numbers["table_files"]) == (1, 1)
    bronze = runs.shows("bronze/events", D6)
    assert bronze["rows_late"] == 1
    assert bronze["bytes_read"] > 0
    assert bronze["files_read"] == 1


def test_the_row_counts_of_a_table_and_a_day_are_those_of_its_rows(runs: Runs) -> None:
    bronze = [runs.shows("bronze/events", day) for day in (D5, D6)]
    assert [shown["dagster/row_count"] for shown in bronze] == [46, 46]
    assert [shown["dagster/partition_row_count"] for shown in bronze] == [41, 5]
    daily = runs.shows("gold/daily_product_sales", D5)
    rows = len(runs.world.rows("gold/daily_product_sales"))
    assert (daily["dagster/row_count"], daily["dagster/partition_row_count"]) == (rows, rows)


def test_the_columns_have_types_descriptions_and_constraints(runs: Runs) -> None:
    schema = runs.shows("silver/sales", D5)["dagster/column_schema"]
    columns = {column.name: column for column in schema.columns}

    assert schema.constraints.other == ["one row per order_id, dt"]
    price = columns["unit_price"]
    assert (price.type, price.description) == ("decimal(18,4)", "Of one piece.")
    assert price.constraints.other == ["unit_price is not below 0."]
    nullable = {name for name, column in columns.items() if column.constraints.nullable}
    assert not nullable & {"order_id", "qty", "unit_price", "event_ts"}
    assert {"user_id", "arrival_ts"} <= nullable
    assert columns["_batch"].description == "The batch that last wrote the row."


def origins(runs: Runs, name: str) -> dict[str, list[str]]:
    lineage = runs.shows(name, D5)["dagster/column_lineage"]
    return {
        column: [f"{dep.asset_key.to_user_string()}.{dep.column_name}" for dep in deps]
        for column, deps in lineage.deps_by_column.items()
    }


def test_columns_are_traced_from_gold_to_what_landed(runs: Runs) -> None:
    daily = origins(runs, "gold/daily_product_sales")
    assert daily == {
        "dt": ["gold/sales_mart.dt"],
        "product_id": ["gold/sales_mart.product_id"],
        "store_id": ["gold/sales_mart.store_id"],
        "units": ["gold/sales_mart.qty"],
        "revenue": ["gold/sales_mart.total_price"],
        "orders": ["gold/sales_mart.order_id"],
    }
    mart = origins(runs, "gold/sales_mart")
    assert mart["total_price"] == ["silver/sales.qty", "silver/sales.unit_price"]
    assert mart["user_id"] == ["silver/sales.user_id"]
    schema = runs.shows("gold/sales_mart", D5)["dagster/column_schema"]
    described = {column.name: column.description for column in schema.columns}
    assert described["total_price"] == "From silver/sales.qty, silver/sales.unit_price."
    assert described["dt"] == "The UTC day of the partition. From silver/sales.dt."
    silver = origins(runs, "silver/sales")
    assert silver["qty"] == ["bronze/events.payload"]
    assert silver["dt"] == ["bronze/events._day"]
    assert "dagster/column_lineage" not in runs.shows("bronze/events", D5)


def test_a_held_day_is_no_event_of_the_asset_and_the_rule_that_holds_it_shows_its_numbers(
    runs: Runs,
) -> None:
    key = dg.AssetKey(["silver", "sales"])
    assert runs.instance.get_materialized_partitions(key) >= {D5}
    held = dg.AssetRecordsFilter(key, asset_partitions=[D6])
    assert not runs.instance.fetch_materializations(held, limit=1).records
    assert not runs.instance.fetch_observations(held, limit=1).records
    numbers = runs.check("silver/sales", "quarantined_share", D6)
    assert (numbers["rows_read"], numbers["rows_quarantined"]) == (4, 1)
    assert numbers["found"].startswith("1 of 4 rows (25.00%) is in quarantine")
    assert "rows_read" not in runs.check("silver/sales", "qty_at_least_0", D6)


def test_the_data_version_is_the_delta_version_that_last_changed_the_days(
    runs: Runs, spark: SparkSession, event_log: Path
) -> None:
    first = runs.data_version("silver/sales", D5)  # it was published with a held day in the run
    assert first == str(runs.world.version("silver/sales"))
    assert (runs.event("silver/sales", D5).tags or {})["dagster/code_version"] == "1"
    assert runs.data_version("gold/sales_mart", D5) == str(runs.world.version("gold/sales_mart"))

    # The held day is repaired: bronze moves on, but not for the other day.
    landed = runs.data_version("bronze/events", D5)
    runs.world.land("events", D6, "b.jsonl", [*sales("b", D6, 3), sale("late", D5)])
    assert runs.load(["bronze/events"], D6)
    assert runs.load(["bronze/events"], D5)
    assert runs.data_version("bronze/events", D6) == str(runs.world.version("bronze/events"))
    assert runs.data_version("bronze/events", D5) == landed
    assert runs.data_version("bronze/events", D6) != landed
    idle = runs.shows("bronze/events", D5)
    assert (idle["note"], idle["rows_read"]) == ("Nothing is new.", 0)
    assert idle["dagster/partition_row_count"] == 41

    counted = EventLog(spark, event_log)
    assert runs.load(["silver/sales"], D5, D6)
    assert jobs(counted.new()) <= 2 * LATER["silver/sales"]  # what is shown costs none
    versions = {runs.data_version("silver/sales", day) for day in (D5, D6)}
    assert versions == {str(runs.world.version("silver/sales"))}
    assert runs.shows("silver/sales", D6)["dagster/row_count"] == 44


def test_a_table_that_nothing_landed_for_is_of_version_0_and_has_no_rows(runs: Runs) -> None:
    assert runs.load(["bronze/users", "silver/users"], D5)

    assert runs.data_version("silver/users", D5) == "0"
    shown = runs.shows("silver/users", D5)
    assert shown["dagster/partition_row_count"] == 0
    assert shown["dagster/uri"] == runs.world.path("silver/users")
    assert shown["note"] == "The tables that it reads have no rows of this day."
    assert runs.shows("bronze/users", D5)["note"] == "No data has landed for this day."


def test_a_day_without_data_says_so_and_one_whose_files_wait_names_them(settings: Settings) -> None:
    table = replace(EVENTS, reads=(LandedFiles("events", marker="DONE"),))
    landed = Path(settings.landing, "events", D5, "a.jsonl")
    landed.parent.mkdir(parents=True)
    landed.write_text("{}\n")

    def no_spark() -> SparkSession:
        raise AssertionError("no Spark is asked for")

    lakehouse = Lakehouse(settings, [table], no_spark, lambda: datetime(2017, 1, 9, tzinfo=UTC))
    result = lakehouse.load(table, [jan(5), jan(6)])

    after = metadata.shown(table, settings.lake, lakehouse.ledger.view().table(table.name))
    assert [after.day(each)["note"] for each in result.days.values()] == [
        f"1 file waits: events/{D5}/a.jsonl (there is no DONE in its folder).",
        "No data has landed for this day.",
    ]


def test_a_load_with_nothing_to_do_logs_that_and_how_far_the_table_is(runs: Runs) -> None:
    assert runs.load(["bronze/events", "silver/users"], D5)

    run = runs.instance.get_runs(limit=1)[0]
    logged = [entry.user_message for entry in runs.instance.all_logs(run.run_id)]
    assert f"bronze/events: nothing new for {D5}; the table has days up to {D6}" in logged
    assert f"silver/users: nothing new for {D5}; the table has no day yet" in logged


def test_a_range_that_ends_before_it_begins_fails_the_run_with_the_remedy(runs: Runs) -> None:
    assert not runs.load(["bronze/events"], D6, D5)

    run = runs.instance.get_runs(limit=1)[0]
    logged = [str(entry.dagster_event) for entry in runs.instance.all_logs(run.run_id)]
    assert any(f"did you mean {D5}...{D6}?" in event for event in logged)


def test_a_moment_is_shown_as_one_and_a_number_as_one() -> None:
    from incremental_assets.orchestration.metadata import _position

    moment = _position("2017-01-05T10:00:00.000001Z")
    assert moment == dg.MetadataValue.timestamp(datetime(2017, 1, 5, 10, 0, 0, 1, tzinfo=UTC))
    assert _position("17") == 17
    assert _position(str(2**70)) == float(2**70)
    assert _position("0/16B3748") == "0/16B3748"


def test_an_asset_of_ones_own_reads_a_day_of_gold_through_dagster_delta(runs: Runs) -> None:
    page = (PROJECT_ROOT / "docs" / "add-a-table.md").read_text()
    section = page.partition("## An asset that reads the lake")[2]
    example: dict[str, Any] = {}
    exec(section.partition("```python\n")[2].partition("```")[0], example)
    job = example["defs"].resolve_implicit_global_asset_job_def()

    done = job.execute_in_process(
        instance=runs.instance, asset_selection=[dg.AssetKey("best_products")], partition_key=D5
    )

    best = done.output_for_node("best_products")
    assert best.columns == ["product_id", "revenue"]
    gold = runs.world.rows("gold/daily_product_sales")
    assert best["revenue"].sum() == gold["revenue"].sum() > 0


def test_the_reports_on_a_loaded_lake_say_what_its_tables_and_ledger_hold(runs: Runs) -> None:
    made = build_definitions(tables(), runs.world.settings, downstream=[reports])
    job = made.resolve_implicit_global_asset_job_def()
    keys = [dg.AssetKey(name.split("/")) for name in ("reports/daily_sales", REPORT)]

    assert job.execute_in_process(
        instance=runs.instance, asset_selection=keys, partition_key=D5
    ).success

    gold = runs.world.rows("gold/daily_product_sales").filter(pl.col("dt") == jan(5))
    sales = runs.shows("reports/daily_sales", D5)
    assert sales["orders"] == gold["orders"].sum() > 0
    assert sales["revenue"] == float(gold["revenue"].sum())
    assert sales["units"] == gold["units"].sum()
    stored = runs.world.rows(REPORT)
    by_table = {row["table"]: row for row in stored.iter_rows(named=True)}
    mart, counted = by_table["gold/sales_mart"], by_table["gold/daily_product_sales"]
    assert mart["rows"] == counted["orders"] == gold["orders"].sum()
    silver, shown = by_table["silver/sales"], runs.shows("silver/sales", D5)
    assert silver["rows"] == shown["dagster/partition_row_count"]
    assert silver["quarantine"] == [{"rule": "qty_at_least_0", "rows": 1}]
    page = Path(runs.world.path("reports/index.html")).read_text()
    assert f"01-05: {full(float(gold['revenue'].sum()))}<" in page
