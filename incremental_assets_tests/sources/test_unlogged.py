"""What is sent to Java for a read is in no log where it holds a password."""

from __future__ import annotations

import logging

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from incremental_assets.frames import Frames
from incremental_assets.sources.kafka_client import KafkaAccess
from incremental_assets.sources.kafka_messages import TopicReading, read_messages

PASSWORD = "s3cr3t of a broker"


def test_the_password_of_a_broker_is_in_no_log(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    access = KafkaAccess("localhost:9", "SASL_PLAINTEXT", "PLAIN", "loader", PASSWORD)
    caplog.set_level(logging.DEBUG)

    spark.range(1).count()
    assert "py4j.clientserver" in {record.name for record in caplog.records}

    with Frames.over(spark) as frames, pytest.raises(PySparkException):  # without jars, a broker
        read_messages(frames, TopicReading(access, "shop", {0: (0, 1)}, 1)).collect()

    assert PASSWORD not in caplog.text
