"""What is sent to Java for a read is in no log where it holds a password."""

from __future__ import annotations

import logging
from contextlib import suppress

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from incremental_assets.frames import Frames
from incremental_assets.sources.kafka_access import KafkaAccess
from incremental_assets.sources.kafka_messages import TopicReading, read_messages

PASSWORD = "s3cr3t of a broker"


def test_the_password_of_a_broker_is_in_no_log(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    access = KafkaAccess("localhost:9", "SASL_PLAINTEXT", "PLAIN", "loader", PASSWORD)
    caplog.set_level(logging.DEBUG)

    spark.range(1).count()
    assert "py4j.clientserver" in {record.name for record in caplog.records}

    # The password is sent here, whether or not the session has Kafka's jars from another test. No
    # broker is asked for rows: it would be waited for.
    with Frames.over(spark) as frames, suppress(PySparkException):
        read_messages(frames, TopicReading(access, "shop", {0: (0, 1)}, 1)).printSchema()

    assert PASSWORD not in caplog.text
