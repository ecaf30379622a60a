"""Dagster's scheduler; where an instance loads it, the daemon looks for backfills at once.

Dagster has no setting for how often it looks, which is twice a minute. Where a later Dagster names
that otherwise, the tests that wait for a backfill only take longer.
"""

from dagster._core.scheduler import DagsterDaemonScheduler
from dagster._daemon import controller

__all__ = ["DagsterDaemonScheduler"]

controller.DEFAULT_DAEMON_INTERVAL_SECONDS = 2
