"""The password of a database is in no log, and in no message."""

from __future__ import annotations

import logging

import pytest
from pyspark.sql import SparkSession

from incremental_assets.frames import Frames
from incremental_assets.sources.jdbc import Jdbc
from incremental_assets_tests.databases.postgresql import Database
from incremental_assets_tests.databases.server import PASSWORD


def test_a_log_of_all_that_is_sent_to_java_has_no_password(
    spark: SparkSession, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    database.execute("CREATE TABLE moves AS SELECT 1 AS number")
    caplog.set_level(logging.DEBUG)

    with Frames.over(spark) as frames:
        rows = Jdbc(database.url, "moves").fix().rows(frames)
        assert [row["number"] for row in rows.collect()] == [1]

    assert "py4j.clientserver" in {record.name for record in caplog.records}
    assert PASSWORD not in caplog.text
