"""What Spark is told, wherever it runs."""

from __future__ import annotations

from pathlib import Path
from traceback import format_exception

import pytest
from pyspark.sql import SparkSession

from incremental_assets.errors import SparkUnavailableError
from incremental_assets.settings import Settings
from incremental_assets.spark import session
from incremental_assets.spark.load_session import PINNED
from incremental_assets.spark.session import SESSION_CONF, session_conf


def test_a_server_is_reported_only_what_a_session_may_set(settings: Settings) -> None:
    remote = settings.replace(spark_remote="sc://nowhere:15002", cache=settings.cache / "no")

    assert session_conf(remote) == SESSION_CONF | PINNED


def test_a_cluster_gets_its_master_and_the_jars_but_nothing_sized_for_one_machine(
    settings: Settings,
) -> None:
    conf = session_conf(settings.replace(spark_master="spark://head:7077"))

    assert conf["spark.master"] == "spark://head:7077"
    assert "delta-spark_4.2_2.13-4.4.0.jar" in conf["spark.jars"]
    assert not [name for name in conf if "driver" in name or "artitions" in name]


def test_what_was_submitted_keeps_its_master_driver_and_jars(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")

    conf = session_conf(settings.replace(cache=settings.cache / "no"))

    own = ("spark.master", "spark.driver", "spark.jars", "spark.app", "spark.ui")
    assert not [name for name in conf if name.startswith(own)]
    assert conf["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"


def test_an_embedded_spark_is_sized_for_one_machine(settings: Settings) -> None:
    conf = session_conf(settings.replace(spark_master="local[2]", driver_memory="700m"))

    assert conf["spark.master"] == "local[2]"
    assert conf["spark.driver.memory"] == "700m"
    assert conf["spark.databricks.delta.snapshotPartitions"] == "1"
    assert conf["spark.ui.enabled"] == "false"


def test_without_jars_no_spark_is_started(settings: Settings) -> None:
    with pytest.raises(SparkUnavailableError, match="The Delta jars are not in"):
        session_conf(settings.replace(cache=settings.cache / "no"))


def test_without_java_no_spark_is_started(settings: Settings) -> None:
    with pytest.raises(SparkUnavailableError, match="Java is missing"):
        session_conf(settings.replace(java_home=Path("/nowhere")))


def test_no_error_of_a_server_shows_its_parameters(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: str) -> None:
        raise ValueError("Parameter 'token=t0k3n%3D' of sc://host/;token=t0k3n%3D, t0k3n= is wrong")

    monkeypatch.setattr(session, "_require_server", refuse)
    remote = settings.replace(spark_remote="sc://host/;token=t0k3n%3D;use_ssl=true")

    with pytest.raises(SparkUnavailableError, match=r"^Spark cannot be started \(sc://h") as raised:
        session.start_session(remote)

    shown = "".join(format_exception(raised.value))
    assert "t0k3n" not in shown
    assert "Parameter 'token=…' of sc://host/;token=…, … is wrong" in shown


def test_every_session_reckons_in_utc_and_refuses_what_does_not_fit(spark: SparkSession) -> None:
    assert {name: spark.conf.get(name) for name in SESSION_CONF} == SESSION_CONF
