"""The Spark session of one load, whose settings and views are nobody else's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

# How files are written, whoever started Spark. Delta knows no shredded VARIANT unless a table says
# so, and Spark would shred on its own; timestamps of 96 bits have no statistics.
_ALWAYS = {
    # Whoever started the session: instants without a zone are UTC, and what does not fit fails.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.variant.inferShreddingSchema": "false",
    "spark.sql.variant.writeShredding.enabled": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
# With a few rows, each further task, stage or job (a broadcast is one) takes longer than the rows.
_SMALL = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.openCostInBytes": "0",
}


@contextmanager
def own_session(spark: SparkSession, *, small: bool = False) -> Iterator[SparkSession]:
    """A session that shares nothing settable with another load; for a `small` one, few tasks.

    On a Connect server it is released when the load is over; its client would otherwise be closed
    by Python's exit, where closing can hang.
    """
    clone = getattr(spark, "cloneSession", None)
    session: SparkSession = clone() if clone else spark.newSession()
    try:
        for name, value in (_ALWAYS | (_SMALL if small else {})).items():
            session.conf.set(name, value)
        yield session
    finally:
        if clone:  # `stop()` of a clone fails in pyspark 4.2.0
            with suppress(PySparkException):  # a server that is gone has been told of already
                session.client.release_session()
            session.client.close()
