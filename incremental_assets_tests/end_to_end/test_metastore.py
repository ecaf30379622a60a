"""Tables in a Hive metastore, by the real command lines, and what others find there."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyspark
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incremental_assets.settings import Settings
from incremental_assets.spark.jars import jar_paths
from incremental_assets.spark.java import java_command
from incremental_assets.spark.server import free_port
from incremental_assets_tests.end_to_end.dagster_dev import until
from incremental_assets_tests.end_to_end.shop import OF_THE_TILL, Shop
from incremental_assets_tests.end_to_end.test_connect import listens
from incremental_assets_tests.scenarios.world import sale
from incremental_assets_tests.thorough import thorough

CATALOG = {
    "INCREMENTAL_ASSETS_CATALOG": "spark_catalog",
    "INCREMENTAL_ASSETS_CATALOG_SCHEMA": "till_{layer}",
}
# What others do: their own Spark, which knows Delta and the metastore, and no path.
READS = """
import json
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
sales = spark.table("spark_catalog.till_silver.sales")
comments = {c.name: c.description for c in spark.catalog.listColumns("till_silver.sales")}
print(json.dumps({
    "rows": sales.count(),
    "is_grown": "channel" in sales.columns,
    "table": spark.catalog.getTable("spark_catalog.till_silver.sales").description,
    "qty": comments["qty"],
    "landed": sorted(row[0] for row in spark.sql(
        "SELECT try_variant_get(payload, '$.qty', 'int') FROM till_bronze.events"
    ).collect()),
}))
"""


@pytest.fixture
def metastore(tmp_path: Path, settings: Settings) -> Iterator[Path]:
    """A Hive metastore over Derby, in a process of its own; the folder of Spark's settings."""
    folder, port = tmp_path / "metastore", free_port()
    folder.mkdir()
    site = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/db;create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.async.log.enabled": "false",  # it needs a jar that Spark does not have
        "hive.metastore.warehouse.dir": f"{folder}/warehouse",
    }
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in site.items()
    )
    (folder / "hive-site.xml").write_text(f"<configuration>{properties}</configuration>")
    jars = Path(pyspark.__file__).parent / "jars"
    command = [
        *(str(java_command(settings.java_home)), f"-Dderby.stream.error.file={folder}/derby.log"),
        *("-cp", f"{folder}:{jars}/*", "org.apache.hadoop.hive.metastore.HiveMetaStore"),
        *("-p", str(port)),
    ]
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(
        "spark.sql.catalogImplementation hive\n"
        f"spark.hadoop.hive.metastore.uris thrift://127.0.0.1:{port}\n"
    )
    log = (folder / "log").open("wb")
    with closing(log), subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as server:
        try:
            until(lambda: listens(str(port)), 60)
            yield conf
        finally:
            server.kill()


def read(shop: Shop, metastore: Path) -> dict[str, object]:
    """What another program finds in the metastore."""
    delta = {
        "spark.jars": ",".join(map(str, jar_paths(shop.settings.cache))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.ui.enabled": "false",
    }
    options = shlex.join([*(f"--conf={n}={v}" for n, v in delta.items()), "pyspark-shell"])
    env = {"SPARK_CONF_DIR": str(metastore), "PYSPARK_SUBMIT_ARGS": options}
    done = shop.python(READS, **env)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


@thorough(
    "registration/test_entries.py, registration/test_after_load.py, cli/test_register.py: the same "
    "in a catalog in memory"
)
def test_others_find_the_tables_in_a_hive_metastore_as_they_grow(
    till: Shop, spark: SparkSession, metastore: Path
) -> None:
    till.env |= {**CATALOG, "SPARK_CONF_DIR": str(metastore)}
    world = till.world(spark, *OF_THE_TILL)
    world.land("events", "2017-01-04", "a.jsonl", [sale("a", "2017-01-04")])

    run = till.command("run", "--no-dagster")
    world.land("events", "2017-01-05", "b.jsonl", [sale("b", "2017-01-05", qty=2, channel="app")])
    again = till.command("run", "--no-dagster")
    found = read(till, metastore)

    assert run.returncode == again.returncode == 0, (run.stderr, again.stderr)
    for table in OF_THE_TILL:
        assert f"{table}: registered as spark_catalog.till_" in run.stderr
    assert "registered" not in again.stderr
    assert found == {
        "rows": 2,
        "is_grown": True,
        "table": "One row per line of a basket, typed, the latest version of each.",
        "qty": "Pieces.",
        "landed": [1, 2],
    }
    commits = DeltaTable(world.path("silver/sales")).history()
    assert {each["engineInfo"].partition(":")[0] for each in commits} == {"delta-rs"}
