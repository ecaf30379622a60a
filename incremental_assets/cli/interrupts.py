"""Ctrl-C amid a command: it ends with one sentence, whatever was going on."""

from __future__ import annotations

import logging
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUIET_WITHIN_SECONDS = 5.0


def end_quietly(spark: SparkSession | None = None) -> None:
    """From now on an interrupt stops what Spark does, and no library tells where it was just then.

    Py4J logs a traceback of any call that is interrupted, and Spark one of every task. Signals
    belong to the main thread: elsewhere nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        return

    def interrupted(*_: object) -> None:
        logging.disable(logging.CRITICAL)
        if spark is not None:
            # This thread may be amid a call to Java; another one has a connection of its own.
            stopping = threading.Thread(target=_stop_jobs, args=(spark,), daemon=True)
            stopping.start()
            stopping.join(_QUIET_WITHIN_SECONDS)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupted)


def _stop_jobs(spark: SparkSession) -> None:
    context = spark.sparkContext
    context.setLogLevel("OFF")
    context.cancelAllJobs()
