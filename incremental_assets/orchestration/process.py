"""Which process a run is in, so that a daemon can check whether it is alive.

A process number alone is not enough: another container has its own process of that number, and so
has the same machine later on. A process is named by the machine's boot, the process namespace (each
container has its own), its number, and when it was started.

A daemon on another machine or in another container cannot see it. For that one, the run counts its
heartbeats in a second tag, with the seconds between two of them, by which its silence is judged.
The clocks of two machines differ, so a heartbeat has no time: that the number no longer changes is
timed by whoever reads it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """That the process of a run was alive: the number counts from 0, one every so many seconds."""

    every: float
    number: int

    def tag(self, run_id: str) -> dict[str, str]:
        return {HEARTBEAT: f"{run_id}/{self.every:g}/{self.number}"}


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


def record_process(
    instance: dg.DagsterInstance, run_id: str, process: str, every: float | None = None
) -> None:
    """Record which process a run is in now; and its first heartbeat, if there will be others.

    Both at once: a run that was killed between the two would count as alive for ever.
    """
    first = Heartbeat(every, 0).tag(run_id) if every else {}
    instance.add_run_tags(run_id, {PROCESS: f"{run_id}/{process}", **first})


@contextmanager
def heartbeats(instance: dg.DagsterInstance, run_id: str, every: float) -> Iterator[None]:
    """Record every so many seconds, until the block ends, that a run's process is alive.

    While the instance cannot be reached no heartbeat is recorded, and no run fails by that. Nor is
    one of a run that was marked as failed. Dagster writes a tag by writing all that it has read of
    the run: a tag that it adds meanwhile, such as those of the run's retry, would be lost.
    """
    numbers = count(1)

    def beat() -> None:
        with suppress(Exception):  # each storage of Dagster has errors of its own
            run = instance.get_run_by_id(run_id)
            if run is None or not run.is_finished:
                instance.add_run_tags(run_id, Heartbeat(every, next(numbers)).tag(run_id))

    with repeatedly(beat, every):
        yield


def recorded_process(run: dg.DagsterRun) -> str:
    """The process that a run recorded last; "" if it has recorded none."""
    return _recorded(run, PROCESS)


def recorded_heartbeat(run: dg.DagsterRun) -> Heartbeat | None:
    """The last heartbeat of a run; None if it has none, or one of another version."""
    every, _, number = _recorded(run, HEARTBEAT).partition("/")
    try:
        return Heartbeat(float(every), int(number))
    except ValueError:
        return None


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
