"""What is said when Spark fails: the reason in one line, and what to do where that is known."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from incremental_assets.spark.failure import SPARK_ERRORS, what_failed


def test_a_store_that_spark_has_no_client_for_says_where_to_read_on(spark: SparkSession) -> None:
    with pytest.raises(SPARK_ERRORS) as raised:
        spark.read.text("s3a://bucket/events.jsonl")

    assert isinstance(raised.value, Py4JJavaError)  # PySpark has no class for it
    message = what_failed(raised.value)
    assert "S3AFileSystem not found" in message
    assert "docs/object-stores.md" in message
    assert "\n" not in message


def test_s3_is_the_same_store_as_s3a(spark: SparkSession) -> None:
    with pytest.raises(SPARK_ERRORS) as raised:
        spark.read.text("s3://bucket/events.jsonl")

    assert "S3AFileSystem not found" in what_failed(raised.value)


def test_an_error_that_spark_explains_is_reported_in_its_first_line(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException) as raised:
        spark.range(1).select("no_such_column")

    message = what_failed(raised.value)
    assert "no_such_column" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "error", [ConnectionRefusedError(111, "Connection refused"), Py4JNetworkError("no answer")]
)
def test_a_java_that_died_is_reported_with_the_memory_it_may_take(error: Exception) -> None:
    assert isinstance(error, SPARK_ERRORS)
    assert "INCREMENTAL_ASSETS_DRIVER_MEMORY" in what_failed(error)
