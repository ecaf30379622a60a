"""Runs as processes of this machine, each of which can be seen to have died.

Dagster's own launcher cannot tell: a run that was killed together with its code server stayed
`STARTED` for ever, and nothing that waits for it went on.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg

# Dagster has no public module for launchers: its own integrations import these, too.
from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus
from dagster._core.launcher.default_run_launcher import DefaultRunLauncher

# Of the clock's resolution, and of a clock that was set meanwhile.
_TOLERANCE = timedelta(seconds=5)


class LocalRunLauncher(DefaultRunLauncher):
    """Dagster's default launcher, for an instance whose daemon and runs are on one machine.

    With `run_monitoring` on, the daemon marks a run as failed whose process is gone.
    """

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Whether the process of a run is there; one that is not known yet counts as there."""
        found = self._process(run)
        if found is None:
            return CheckRunHealthResult(WorkerStatus.RUNNING, "it has not said its process yet")
        pid, at = found
        if is_alive(pid, at):
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return CheckRunHealthResult(WorkerStatus.NOT_FOUND, f"its process {pid} is gone")

    def _process(self, run: dg.DagsterRun) -> tuple[int, datetime] | None:
        """The process that a run last said it was in, and when it said so."""
        logs = self._instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT)
        for entry in reversed(logs):
            event = entry.dagster_event
            pid = event.engine_event_data.metadata.get("pid") if event is not None else None
            if pid is not None and str(pid.value).isdigit():
                return int(str(pid.value)), datetime.fromtimestamp(entry.timestamp, UTC)
        return None


def is_alive(pid: int, at: datetime) -> bool:
    """Whether the process is there that had this number at that time, and is no zombie.

    Where the system has no `/proc`, a later process with the same number is taken for it.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        uptime = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError):
        return True
    if state == "Z":
        return False
    age = uptime - int(fields[18]) / os.sysconf("SC_CLK_TCK")
    return datetime.now(UTC) - timedelta(seconds=age) <= at + _TOLERANCE
