"""A Spark session for scripts, notebooks and tests."""

from __future__ import annotations

from pyspark.sql import SparkSession

from incremental_assets.settings import Settings
from incremental_assets.spark.session import start_session
from incremental_assets.spark.sizing import LARGE_BYTES, announce


def local_session() -> SparkSession:
    """An embedded Spark with Delta, tuned for one machine; or the one that the settings name.

    Raises SparkUnavailableError, with the remedy, where Java or the jars are missing.
    """
    announce(0, [LARGE_BYTES])  # it is unknown how much it will load
    return start_session(Settings.from_environment())
