"""Runs as processes of this machine, whose death the daemon can detect.

Dagster's own launcher cannot detect it: a run that was killed together with its code server stayed
`STARTED` for ever, and blocked all that waited for it.
"""

from __future__ import annotations

import dagster as dg

# Dagster has no public module for launchers: its own integrations import these, too.
from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus
from dagster._core.launcher.default_run_launcher import DefaultRunLauncher

from incremental_assets.orchestration.process import is_alive, recorded_process


class LocalRunLauncher(DefaultRunLauncher):
    """Dagster's default launcher, for an instance whose daemon and runs are on one machine.

    With `run_monitoring` on, the daemon marks a run as failed whose process is gone. Of a run in
    another container or on another machine it cannot know that, and leaves it alone.
    """

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Whether the process of a run is alive; one that cannot be seen counts as alive.

        Never returns `UNKNOWN`: Dagster would mark the run as failed.
        """
        process = recorded_process(run)
        if not process:
            return CheckRunHealthResult(WorkerStatus.RUNNING, "it has not recorded its process yet")
        alive = is_alive(process)
        if alive is None:
            what = "it is on another machine or in another container, and cannot be seen from here"
            return CheckRunHealthResult(WorkerStatus.RUNNING, what)
        if alive:
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        number = process.split("/")[2]
        return CheckRunHealthResult(WorkerStatus.NOT_FOUND, f"its process {number} is gone")
