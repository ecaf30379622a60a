"""`register`: tables in the catalog of a Connect server, which lasts as long as the server does."""

from __future__ import annotations

import json
from collections.abc import Iterator

import polars as pl
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.connect.session import SparkSession as RemoteSession

from incremental_assets.cli import context
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.registration import Registration
from incremental_assets.settings import PREFIX, Settings
from incremental_assets_tests.cli.conftest import Command
from incremental_assets_tests.scenarios.world import TABLES

SALES, NAME = "silver/sales", "spark_catalog.cli_silver.sales"


@pytest.fixture
def remote(
    spark: SparkSession, server: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RemoteSession]:
    """A session of the server, which commands get as well, and their setting of a catalog."""
    monkeypatch.setenv(f"{PREFIX}CATALOG", "spark_catalog")
    monkeypatch.setenv(f"{PREFIX}CATALOG_SCHEMA", "cli_{layer}")
    session = RemoteSession.builder.remote(server).create()
    monkeypatch.setattr(context, "lazy_spark", lambda _: lambda: session)
    yield session
    spark.sql("DROP SCHEMA IF EXISTS cli_silver CASCADE").collect()
    session.client.close()


@pytest.fixture
def sales(settings: Settings, lake: Ledger) -> str:
    """The path of a table of two columns in a lake that has nothing else."""
    path = f"{settings.lake}/{SALES}"
    pl.DataFrame({"_batch": [1], "qty": [2]}).write_delta(path)
    return path


def test_a_table_is_registered_with_its_comments_and_then_it_is_there(
    command: Command, spark: SparkSession, remote: RemoteSession, sales: str
) -> None:
    first, second = command("register", "--json"), command("register", SALES)

    assert first.exit_code == second.exit_code == 0, first.stderr + second.stderr
    states = {row["table"]: (row["state"], row["comments"]) for row in json.loads(first.stdout)}
    assert states.pop(SALES) == ("created", 3)
    assert set(states.values()) == {("not loaded yet", 0)}
    assert "was there" in second.stdout
    found = spark.table(NAME)
    assert (found.count(), found.schema["qty"].metadata) == (1, {"comment": "Pieces."})
    assert DeltaTable(sales).version() == 3


def test_a_load_registers_its_table_once_and_asks_the_catalog_no_more(
    spark: SparkSession, remote: RemoteSession, settings: Settings, sales: str
) -> None:
    asked: list[None] = []
    logged: list[str] = []

    def session() -> SparkSession:
        asked.append(None)
        return remote  # type: ignore[return-value]

    named = settings.replace(catalog="spark_catalog", catalog_schema="cli_{layer}")
    for _ in range(2):  # as Dagster has one for each step
        Registration(named, session, logged.append).after_load(TABLES[SALES])

    assert logged == [f"{SALES}: registering as {NAME}", f"{SALES}: registered as {NAME}"]
    assert len(asked) == 1
    assert spark.table(NAME).count() == 1


def test_a_dry_run_prints_the_sql_and_changes_nothing(
    command: Command, settings: Settings, sales: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{PREFIX}CATALOG", "main")

    shown, as_json = command("register", "--dry-run"), command("register", "--dry-run", "--json")

    assert shown.exit_code == as_json.exit_code == 0, shown.stderr + as_json.stderr
    lines = [line for line in shown.stdout.splitlines() if not line.endswith("not loaded yet.")]
    schema, table, comments = lines
    assert schema == "CREATE SCHEMA IF NOT EXISTS `main`.`silver`;"
    assert table.startswith("CREATE TABLE IF NOT EXISTS `main`.`silver`.`sales` USING DELTA ")
    assert table.endswith(f" LOCATION '{sales}';")
    assert comments == "-- The log of silver/sales gets 3 comments."
    rows = {row["table"]: row for row in json.loads(as_json.stdout)}
    assert [f"{line};" for line in rows[SALES]["sql"]] == lines[:2]
    assert rows["gold/sales_mart"]["sql"] == []
    assert DeltaTable(sales).version() == 0


def test_a_table_that_cannot_be_registered_does_not_keep_the_others_back(
    command: Command, spark: SparkSession, remote: RemoteSession, settings: Settings, sales: str
) -> None:
    pl.DataFrame({"_batch": [1]}).write_delta(f"{settings.lake}/silver/users")
    spark.sql("CREATE SCHEMA cli_silver").collect()
    spark.sql(f"CREATE VIEW {NAME} AS SELECT 1 AS a").collect()

    done = command("register", "silver/users", SALES)

    assert done.exit_code == 1
    assert "cli_silver.users" in done.stdout
    assert f"failed {NAME} is a view, and not the Delta table {sales}" in done.stderr


def test_a_catalog_that_cannot_be_used_is_asked_for_one_table_alone(
    command: Command,
    spark: SparkSession,
    settings: Settings,
    sales: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pl.DataFrame({"_batch": [1]}).write_delta(f"{settings.lake}/silver/users")
    monkeypatch.setenv(f"{PREFIX}CATALOG", "spark_catalog")
    monkeypatch.setattr(context, "lazy_spark", lambda _: lambda: spark)

    done = command("register", "silver/users", SALES)

    assert done.exit_code == 1
    assert done.stderr.count("which this Spark keeps in its memory") == 1
    assert "failed 1 more table not tried." in done.stderr


@pytest.mark.usefixtures("lake")
def test_without_a_catalog_the_setting_is_named(command: Command) -> None:
    done = command("register")

    assert done.exit_code == 2
    assert done.stderr.startswith(f"Error: {PREFIX}CATALOG is not set: name the catalog to")
