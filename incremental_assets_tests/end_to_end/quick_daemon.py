"""The project's run launcher; where it is loaded, Dagster's daemon looks for backfills at once.

Dagster has no setting for how often it looks, which is twice a minute. Where a later Dagster names
that otherwise, the tests that wait for a backfill only take longer.
"""

from dagster._daemon import controller

from incremental_assets.orchestration.launcher import LocalRunLauncher

__all__ = ["LocalRunLauncher"]

controller.DEFAULT_DAEMON_INTERVAL_SECONDS = 2
