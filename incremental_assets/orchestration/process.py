"""Which process a run is in, so that a daemon can check whether it is alive.

A process number alone is not enough: another container has its own process of that number, and so
has the same machine later on. A process is named by the machine's boot, the process namespace (each
container has its own), its number, and when it was started.

A daemon on another machine or in another container cannot see it. For that one, the run counts its
heartbeats in a second tag. The clocks of two machines differ, so a heartbeat has no time: that the
number no longer changes is timed by whoever reads it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import dagster as dg

from incremental_assets.repeatedly import repeatedly

# A tag of a run. A retry copies the tags of its run, so the run is named in it, too. Dagster shows
# no tag that begins with a dot.
PROCESS = ".dagster/incremental_assets_process"
HEARTBEAT = ".dagster/incremental_assets_heartbeat"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")


def identity(pid: int | None = None) -> str:
    """The name of a process of this namespace, this one if none is given; "" if unknown."""
    number = os.getpid() if pid is None else pid
    try:
        return f"{_here()}/{number}/{_stat(number)[1]}"
    except (OSError, ValueError, IndexError):
        return ""


def is_alive(process: str) -> bool | None:
    """Whether the process of that name runs and is no zombie; None where it cannot be known."""
    try:
        boot, namespace, number, started = process.split("/")
        if f"{boot}/{namespace}" != _here():
            return None
        with suppress(PermissionError):  # it runs, and is another user's
            os.kill(int(number), 0)
        state, since = _stat(int(number))
    except ProcessLookupError:
        return False
    except (OSError, ValueError, IndexError):
        return None
    return state != "Z" and since == int(started)


def record_process(instance: dg.DagsterInstance, run_id: str, process: str) -> None:
    """Record which process a run is in now."""
    instance.add_run_tags(run_id, {PROCESS: f"{run_id}/{process}"})


@contextmanager
def heartbeats(instance: dg.DagsterInstance, run_id: str, every: float) -> Iterator[None]:
    """Record every so many seconds, from now until the block ends, that a run's process is alive.

    While the instance cannot be reached no heartbeat is recorded, and no run fails by that.
    """
    numbers = count()

    def beat() -> None:
        with suppress(Exception):  # each storage of Dagster has errors of its own
            instance.add_run_tags(run_id, {HEARTBEAT: f"{run_id}/{next(numbers)}"})

    beat()
    with repeatedly(beat, every):
        yield


def recorded_process(run: dg.DagsterRun) -> str:
    """The process that a run recorded last; "" if it has recorded none."""
    return _recorded(run, PROCESS)


def recorded_heartbeat(run: dg.DagsterRun) -> str:
    """The number of the last heartbeat of a run; "" if it has none."""
    return _recorded(run, HEARTBEAT)


def _recorded(run: dg.DagsterRun, tag: str) -> str:
    """What a run itself recorded, and not one of which it is the retry."""
    run_id, _, found = run.tags.get(tag, "").partition("/")
    return found if run_id == run.run_id else ""


def _here() -> str:
    """The machine since its start, and the process namespace of this process."""
    return f"{_BOOT.read_text().strip()}/{_NAMESPACE.readlink()}"


def _stat(pid: int) -> tuple[str, int]:
    """The state of a process, and when it was started, in clock ticks since the machine was."""
    state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return state, int(fields[18])
