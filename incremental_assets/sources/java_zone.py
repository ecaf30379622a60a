"""The time zone of Spark's Java, by which drivers of databases, and ORC, make instants."""

from __future__ import annotations

from pyspark.sql import SparkSession

from incremental_assets.errors import SourceError

_UTC = frozenset({"UTC", "Etc/UTC", "GMT", "Z", "Etc/GMT", "UCT", "Zulu", "Universal"})


def java_zone(session: SparkSession) -> str:
    """The time zone of Spark's Java, where it runs tasks."""
    asked = "java_method('java.time.ZoneId', 'systemDefault') AS zone"
    return str(session.range(1).selectExpr(asked).collect()[0]["zone"])


def require_utc(zone: str, path: str) -> None:
    """Raise SourceError for a zone of Java by which instants would be changed."""
    if zone not in _UTC:
        raise SourceError(
            f"{path}: Spark's Java is in the time zone {zone}, by which instants would be "
            "changed. Nothing was loaded; start Spark with -Duser.timezone=UTC in "
            "spark.driver.extraJavaOptions and spark.executor.extraJavaOptions."
        )
