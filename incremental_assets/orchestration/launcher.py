"""Runs as processes of the code server's machine, whose death the daemon detects.

Dagster's own launcher cannot detect it: a run that was killed together with its code server stayed
`STARTED` for ever, and blocked all that waited for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import dagster as dg

# Dagster has no public module for launchers: its own integrations import these, too.
from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus
from dagster._core.launcher.default_run_launcher import DefaultRunLauncher

from incremental_assets.errors import SettingsError
from incremental_assets.orchestration.process import (
    Heartbeat,
    is_alive,
    recorded_heartbeat,
    recorded_process,
)

HEARTBEAT_TIMEOUT = 150
_BEATS = 5  # that a run records in the time after which it counts as dead without one
_ELSEWHERE = "it is on another machine or in another container, and cannot be seen from here"
_NO_PROCESS = "it has not recorded its process"
_FORGET_AFTER_SECONDS = 3600  # without a check: the run has ended


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
        self.silence = Silence(heartbeat_timeout_seconds, clock)

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
        seconds = self.silence.too_long(run.run_id, heartbeat) if heartbeat else None
        if seconds is None:
            return CheckRunHealthResult(WorkerStatus.RUNNING, why)
        found = f"{why}; its last heartbeat is {seconds:.0f} s old"
        return CheckRunHealthResult(WorkerStatus.NOT_FOUND, found)


@dataclass(slots=True)
class _Heard:
    """A heartbeat, when it was first and last read, and for how long it was silent since."""

    heartbeat: Heartbeat
    since: float
    checked: float
    silent: float = 0


class Silence:
    """For how long the heartbeats of runs have not changed, by the clock of this process.

    Between two checks at most a third of the time counts after which a run is dead: if the storage
    could not be reached meanwhile, the run could not record a heartbeat either. A run that lives is
    then at two thirds of that time at most, with a heartbeat that was due before the outage and one
    that is due after it, and is heard in time.
    """

    def __init__(self, timeout: float, clock: Callable[[], float]) -> None:
        self._timeout, self._clock = timeout, clock
        self._heard: dict[str, _Heard] = {}

    def __len__(self) -> int:
        """How many runs it follows."""
        return len(self._heard)

    def too_long(self, run_id: str, heartbeat: Heartbeat) -> float | None:
        """How many seconds ago a heartbeat was first read, if the run has been silent too long."""
        now = self._clock()
        for other in [
            each for each, at in self._heard.items() if now - at.checked > _FORGET_AFTER_SECONDS
        ]:
            del self._heard[other]
        heard = self._heard.get(run_id)
        if heard is None or heard.heartbeat != heartbeat:
            self._heard[run_id] = _Heard(heartbeat, now, now)
            return None
        most = max(self._timeout, _BEATS * heartbeat.every)
        heard.silent += min(now - heard.checked, most / 3)
        heard.checked = now
        return now - heard.since if heard.silent >= most else None
