"""Runs as processes of the code server's machine, whose death the daemon detects.

Dagster's own launcher cannot detect it: a run that was killed together with its code server stayed
`STARTED` for ever, and blocked all that waited for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import dagster as dg

# Dagster has no public module for launchers: its own integrations import these, too.
from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus
from dagster._core.launcher.default_run_launcher import DefaultRunLauncher

from incremental_assets.errors import SettingsError
from incremental_assets.orchestration.process import (
    is_alive,
    recorded_heartbeat,
    recorded_process,
)

HEARTBEAT_TIMEOUT = 150
_BEATS = 5
"""How many heartbeats a run records in the time after which it counts as dead without one."""
_ELSEWHERE = "it is on another machine or in another container, and cannot be seen from here"
_NO_PROCESS = "it has not recorded its process"
_CHECKS = 6  # without a change; after an outage of the storage the first ones find an old number


class LocalRunLauncher(DefaultRunLauncher):
    """Dagster's default launcher, with which a run that has died is marked as failed.

    With `run_monitoring` on, the daemon asks it for each run in progress. It looks for the process
    of a run on its own machine; of one on another machine or in another container it knows the
    heartbeats alone.
    """

    def __init__(
        self,
        inst_data: Any = None,
        heartbeat_timeout_seconds: int = HEARTBEAT_TIMEOUT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(inst_data)
        if heartbeat_timeout_seconds < _BEATS:
            raise SettingsError(
                f"run_launcher: heartbeat_timeout_seconds is {heartbeat_timeout_seconds}; expected "
                f"{_BEATS} or more, in the dagster.yaml of the instance."
            )
        self.heartbeat_seconds = heartbeat_timeout_seconds / _BEATS
        self._silence = _Silence(heartbeat_timeout_seconds, clock)

    @classmethod
    def config_type(cls) -> Any:
        return {
            "heartbeat_timeout_seconds": dg.Field(
                dg.IntSource,
                default_value=HEARTBEAT_TIMEOUT,
                description="A run on another machine or in another container than the daemon "
                "counts as dead after so many seconds without a heartbeat.",
            )
        }

    @classmethod
    def from_config_value(cls, inst_data: Any, config_value: Mapping[str, Any]) -> Self:
        return cls(inst_data, **config_value)

    @property
    def supports_check_run_worker_health(self) -> bool:
        return True

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Whether the process of a run is alive; one of which nothing is known counts as alive.

        Never returns `UNKNOWN`: Dagster would mark the run as failed.
        """
        process = recorded_process(run)
        alive = is_alive(process)
        if alive is None:  # also without /proc, where no run can name its process
            return self._by_its_heartbeats(run, _ELSEWHERE if process else _NO_PROCESS)
        if alive:
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        number = process.split("/")[2]
        return CheckRunHealthResult(WorkerStatus.NOT_FOUND, f"its process {number} is gone")

    def _by_its_heartbeats(self, run: dg.DagsterRun, why: str) -> CheckRunHealthResult:
        heartbeat = recorded_heartbeat(run)
        seconds = self._silence.too_long(run.run_id, heartbeat) if heartbeat else None
        if seconds is None:
            return CheckRunHealthResult(WorkerStatus.RUNNING, why)
        found = f"{why}; its last heartbeat is {seconds:.0f} s old"
        return CheckRunHealthResult(WorkerStatus.NOT_FOUND, found)


@dataclass(frozen=True, slots=True)
class _Heard:
    """A heartbeat, when it was first read, and how often it was read since."""

    heartbeat: str
    since: float
    checks: int = 1


class _Silence:
    """How long the heartbeats of runs have not changed, by the clock of this process."""

    def __init__(self, most: float, clock: Callable[[], float]) -> None:
        self._most, self._clock = most, clock
        self._heard: dict[str, _Heard] = {}

    def too_long(self, run_id: str, heartbeat: str) -> float | None:
        """For how many seconds a run has been silent, if that is too long."""
        now = self._clock()
        before = self._heard.get(run_id)
        if before is None or before.heartbeat != heartbeat:
            self._heard[run_id] = _Heard(heartbeat, now)
            return None
        heard = self._heard[run_id] = replace(before, checks=before.checks + 1)
        seconds = now - heard.since
        return seconds if seconds > self._most and heard.checks >= _CHECKS else None
