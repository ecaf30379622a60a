"""Which process a run is in, so that a daemon that sees it can check whether it is alive.

A process number alone is not enough: another container has its own process of that number, and so
has the same machine later on. A process is named by the machine's boot, the process namespace (each
container has its own), its number, and when it was started.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import dagster as dg

# A tag of a run. A retry copies the tags of its run, so the run is named in it, too. Dagster shows
# no tag that begins with a dot.
PROCESS = ".dagster/incremental_assets_process"
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


def recorded_process(run: dg.DagsterRun) -> str:
    """The process that a run recorded last; "" if it has recorded none."""
    run_id, _, process = run.tags.get(PROCESS, "").partition("/")
    return process if run_id == run.run_id else ""


def _here() -> str:
    """The machine since its start, and the process namespace of this process."""
    return f"{_BOOT.read_text().strip()}/{_NAMESPACE.readlink()}"


def _stat(pid: int) -> tuple[str, int]:
    """The state of a process, and when it was started, in clock ticks since the machine was."""
    state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return state, int(fields[18])
