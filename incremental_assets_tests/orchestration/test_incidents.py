"""The jobs of an incident, as the UI launches them: with config, over a real instance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incremental_assets.catalog import tables_of
from incremental_assets.changes import SnapshotDiff
from incremental_assets.days import DayRange
from incremental_assets.errors import DefinitionError
from incremental_assets.lakehouse import Lakehouse
from incremental_assets.orchestration import verification
from incremental_assets.orchestration.due import LOAD_DUE
from incremental_assets.orchestration.incidents import INCIDENT_JOBS
from incremental_assets.orchestration.manual_jobs import JobStep
from incremental_assets.orchestration.naming import ALONE
from incremental_assets.orchestration.resources import LakehouseResource, SparkResource
from incremental_assets.orchestration.verification import VERIFY, VerifyConfig
from incremental_assets.settings import PREFIX, Settings
from incremental_assets.sources.stored import Stored
from incremental_assets.table import Table
from incremental_assets.verifying import Verified
from incremental_assets.writes import Append
from incremental_assets_tests.end_to_end.test_own_tables import PACKAGE, deliver
from incremental_assets_tests.feeds.test_snapshots import copy
from incremental_assets_tests.feeds.world import Lake
from incremental_assets_tests.made_once import MadeOnce
from incremental_assets_tests.plan.ledgers import MART, SALES, USERS, did, ledger

DAILY = "gold/daily_orders"
JOBS = (*INCIDENT_JOBS, LOAD_DUE, VERIFY)
_SESSIONS: list[SparkSession] = []


class TestsSpark(SparkResource):
    """The test run's own session in the place of a second one."""

    __test__ = False

    def session(self, settings: Settings) -> SparkSession:
        return _SESSIONS[0]


@pytest.fixture
def shop(
    spark: SparkSession,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    made_once: MadeOnce,
) -> Lake:
    _SESSIONS[:] = [spark]
    monkeypatch.setenv(f"{PREFIX}LAKE", settings.lake)
    monkeypatch.setenv(f"{PREFIX}LANDING", settings.landing)
    monkeypatch.setenv(f"{PREFIX}TABLES", PACKAGE)

    def with_orders(own: Settings) -> None:
        lake = Lake(spark, own, *tables_of(PACKAGE))
        deliver(lake, 0)
        orders = [name for name in lake.tables if "orders" in name]
        lake.load("2017-01-05...2017-01-06", *orders)

    made_once.copied("the corner shop's orders", settings, with_orders)
    return Lake(spark, settings, *tables_of(PACKAGE))


def launch(
    instance: dg.DagsterInstance, name: str, config: Mapping[str, Any]
) -> dg.ExecuteInProcessResult:
    described = next(job for job in JOBS if job.name == name)
    job = described.definition(ALONE, dg.in_process_executor)
    (op,) = job.nodes
    return job.execute_in_process(
        instance=instance,
        run_config={"ops": {op.name: {"config": dict(config)}}},
        resources={
            ALONE.spark: TestsSpark(),
            ALONE.lakehouse: LakehouseResource(tables_of(PACKAGE), Settings.from_environment()),
        },
        raise_on_error=False,
    )


def message(result: dg.ExecuteInProcessResult) -> str:
    (event,) = result.get_step_failure_events()
    failure = event.step_failure_data.user_failure_data
    return (failure.description if failure else None) or ""


def test_everything_that_is_due_is_loaded_without_any_config_next_to_a_day_that_is_held(
    shop: Lake, instance: dg.DagsterInstance
) -> None:
    deliver(shop, 1)
    landed = Path(shop.settings.landing, "products", "2017-01-06", "1.jsonl")
    whole = landed.read_text()
    shop.land("products", "2017-01-06", "1.jsonl", copy(other="a product that was not there"))

    held = launch(instance, "load_due", {})

    assert not held.success
    assert "bronze/products: 2017-01-06 not published." in message(held)
    assert "gate accept bronze/products 2017-01-06 --reason" in message(held)
    assert "Until then silver/products waits." in message(held)
    assert shop.rows(DAILY, "dt", "status", "orders") == [
        ("2017-01-05", "paid", 1),
        ("2017-01-06", "paid", 3),
        ("2017-01-06", "shipped", 2),
    ]

    landed.write_text(whole)
    repaired = launch(instance, "load_due", {})

    assert repaired.success
    assert not shop.stale()
    assert materialized(held) == set(shop.tables)  # of products, the day before
    assert materialized(repaired) >= {"bronze/products", "silver/products"}
    again = launch(instance, "load_due", {"tables": [DAILY], "days": "2017-01-05"})
    assert again.success
    assert again.get_asset_materialization_events() == []


def materialized(result: dg.ExecuteInProcessResult) -> set[str]:
    """The assets that a run shows as loaded."""
    events = result.get_asset_materialization_events()
    return {event.asset_key.to_user_string() for event in events if event.asset_key}


def test_a_restatement_shows_on_the_assets_that_it_rebuilt(
    shop: Lake, instance: dg.DagsterInstance
) -> None:
    before = shop.rows(DAILY, "dt", "status", "orders")
    config = {"tables": ["silver/orders"], "days": "2017-01-05", "why": "code was wrong"}

    result = launch(instance, "restate", config)

    assert result.success
    done = {
        (event.asset_key.to_user_string(), event.partition)
        for event in result.get_asset_materialization_events()
        if event.asset_key
    }
    assert done == {("silver/orders", "2017-01-05"), (DAILY, "2017-01-05")}
    judged = [
        event.asset_check_evaluation_data
        for event in result.all_events
        if event.event_type_value == "ASSET_CHECK_EVALUATION"
    ]
    names = {(check.asset_key.to_user_string(), check.partition) for check in judged}
    assert names == done
    assert all(check.passed for check in judged)
    assert shop.rows(DAILY, "dt", "status", "orders") == before
    history = shop.lakehouse.ledger.view().table("silver/orders").committed
    assert (history[-1].kind, history[-1].why) == ("restate", "code was wrong")
    assert history[-1].run_id == result.run_id


def test_a_rewound_table_is_loaded_again_and_a_held_day_is_accepted(
    shop: Lake, instance: dg.DagsterInstance
) -> None:
    config = {"table": "bronze/orders", "to": "0", "reason": "rows were missing"}
    result = launch(instance, "rewind", config)

    assert result.success
    assert "2017-01-05" in shop.pending_days("bronze/orders")
    assert "is not held" in message(
        launch(
            instance, "accept", {"table": "silver/orders", "day": "2017-01-05", "reason": "fine"}
        )
    )


def test_a_replay_of_nothing_is_a_success(shop: Lake, instance: dg.DagsterInstance) -> None:
    assert launch(instance, "replay", {"table": "silver/orders"}).success


def test_a_proof_shows_on_the_asset_and_a_difference_fails_the_run(
    shop: Lake, instance: dg.DagsterInstance
) -> None:
    proved = launch(instance, "verify", {"tables": [DAILY]})

    assert proved.success
    (event,) = proved.get_asset_observation_events()
    about = event.asset_observation_data.asset_observation.metadata
    assert (about["verified/equal"].value, about["verified/rows"].value) == (True, 1)

    path = shop.path(DAILY)
    DeltaTable(path).update(updates={"orders": "orders + 1"})
    broken = launch(instance, "verify", {"tables": [DAILY]})

    assert not broken.success
    words = "1 of 1 row different from a full rebuild: orders in 1"
    assert words in message(broken)


def test_tables_that_were_never_loaded_or_cannot_be_rebuilt_are_left_out_of_a_proof_unless_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changes = SnapshotDiff(key=("id",))
    stock = Table("bronze/stock", "", (Stored("stock"),), changes=changes, write=Append())
    loaded = ledger(did(USERS, 1, 5), did(stock, 1, 5), did(MART, 1, 5))

    def verified(_: Lakehouse, table: Table, days: DayRange | None) -> Verified:
        if table is MART:
            raise DefinitionError(f"{MART.name}: its transform cannot work")
        if table is not USERS:
            raise DefinitionError(f"{table.name}: there is nothing to verify")
        return Verified(table.name, 1, 1)

    monkeypatch.setattr(verification, "verify", verified)
    lines: list[str] = []
    context = SimpleNamespace(log=SimpleNamespace(info=lines.append))

    def proof(*tables: Table, named: Sequence[str] = (), days: str = "") -> list[str]:
        known = SimpleNamespace(view_if_any=lambda: loaded)
        lakehouse = SimpleNamespace(tables=tables, ledger=known)
        config = VerifyConfig(tables=list(named), days=days)
        step = JobStep(context, config, lakehouse, ALONE)  # type: ignore[arg-type]
        return [event.asset_key.to_user_string() for event in VERIFY.run(step)]

    assert proof(SALES, stock, USERS) == [USERS.name]
    assert lines[0] == f"Left out: {SALES.name} was never loaded."
    assert lines[1].startswith(f"Left out: {stock.name} cannot be rebuilt: each snapshot")
    for name in (SALES.name, stock.name):
        with pytest.raises(DefinitionError, match="there is nothing to verify"):
            proof(SALES, stock, USERS, named=[name])
    with pytest.raises(DefinitionError, match="There is nothing to verify"):
        proof(SALES)
    with pytest.raises(DefinitionError, match="There is nothing to verify"):
        proof(USERS, days="2017-01-06")
    with pytest.raises(DefinitionError, match="its transform cannot work"):
        proof(USERS, MART)


BAD_CONFIG: list[tuple[str, dict[str, Any], str]] = [
    ("load_due", {"tables": ["silver/none"]}, "There is no table 'silver/none'"),
    ("load_due", {"days": "2016-01-05"}, "2016-01-05 is outside the partitions 2017-01-01..."),
    ("restate", {"tables": ["silver/none"], "why": "x"}, "There is no table 'silver/none'"),
    ("restate", {"tables": ["bronze/orders"], "why": "x"}, "bronze keeps what landed"),
    (
        "restate",
        {"tables": ["silver/orders"], "days": "2017-01-09", "why": "x"},
        "never loaded",
    ),
    (
        "restate",
        {"tables": ["silver/orders"], "days": "2017-01-09...2017-01-01", "why": "x"},
        "ends before it begins",
    ),
    ("restate", {"tables": [], "why": "x"}, "A restatement needs a table: name one or more."),
    ("retract", {"files": ["users/5/1.jsonl"], "why": "x"}, "is no file of a landing day"),
    ("verify", {"tables": ["silver/none"]}, "There is no table 'silver/none'"),
    ("replay", {"table": "gold/daily_orders", "days": "soon"}, "'soon' is not a day"),
    ("rewind", {"table": "silver/orders", "to": "soon", "reason": "x"}, "neither a batch"),
    ("rewind", {"table": "silver/orders", "to": "99", "reason": "x"}, "has no batch 99 yet"),
]


def test_bad_config_fails_the_run_in_words_and_changes_nothing(
    shop: Lake, instance: dg.DagsterInstance
) -> None:
    before = shop.versions()
    for job, config, words in BAD_CONFIG:
        result = launch(instance, job, config)

        assert not result.success
        assert words in message(result)
    assert shop.versions() == before


def test_each_job_and_each_word_of_its_config_says_what_it_is_for() -> None:
    for described in JOBS:
        job = described.definition(ALONE, dg.in_process_executor)
        assert job.description
        (op,) = job.nodes
        fields = op.definition.config_schema.config_type.fields  # type: ignore[union-attr]
        assert all(field.description for field in fields.values())
