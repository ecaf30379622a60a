"""Running a whole process: wall time, processor time, and when it printed what."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Run:
    """One process from start to exit.

    `wall` is what somebody who waits for it sees. `cpu` is what it and its JVM used in seconds of
    one core (NaN where only Linux could tell): on a machine that others use it is the steadier
    number. `lines` are the printed lines with their second since the start, `peak` is the most
    memory that all its processes had at once, in MiB, looked at twice a second (0 without `/proc`).
    """

    wall: float
    cpu: float
    lines: tuple[tuple[float, str], ...]
    peak: float = 0.0


class CommandError(Exception):
    """A measured command failed, so its time means nothing."""


def adopt_orphans() -> bool:
    """Make this process inherit JVMs that outlive their Python, to wait for them and count them.

    PySpark's JVM exits after its Python; without this the end of one run would burden the next.
    """
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def run(command: Sequence[str | Path], env: Mapping[str, str], cwd: Path) -> Run:
    """Run a command to its end. Raises CommandError if it exits with anything but 0."""
    before = _cpu_of_children()
    started = time.monotonic()
    process = subprocess.Popen(
        [str(part) for part in command],
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    lines: list[tuple[float, str]] = []
    memory = _Memory()
    memory.start()
    # A JVM that outlives its Python holds the pipe for a moment, so the exit is watched apart.
    ended = _watch(process, lines, started)
    _reap_orphans()
    memory.ended.set()
    memory.join()
    if process.returncode != 0:
        tail = "\n".join(text for _, text in lines[-15:])
        raise CommandError(f"{' '.join(map(str, command))} exited {process.returncode}:\n{tail}")
    cpu = _cpu_of_children() - before if sys.platform == "linux" else float("nan")
    return Run(ended - started, cpu, tuple(lines), memory.peak)


class _Memory(threading.Thread):
    """Looks at the resident memory of all that this process started."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.ended = threading.Event()
        self.peak = 0.0

    def run(self) -> None:
        while sys.platform == "linux" and not self.ended.wait(0.5):
            pages = sum(map(_pages, _below(os.getpid())))
            self.peak = max(self.peak, pages * os.sysconf("SC_PAGE_SIZE") / 2**20)


def _below(pid: int) -> Iterator[int]:
    """The processes that this one started, and those that they did."""
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                yield int(child)
                yield from _below(int(child))


def _pages(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return 0


def _watch(process: subprocess.Popen[str], lines: list[tuple[float, str]], started: float) -> float:
    def read() -> None:
        stamped = ((time.monotonic() - started, line.rstrip("\n")) for line in process.stdout or ())
        lines.extend(stamped)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    process.wait(timeout=1800)
    ended = time.monotonic()
    reader.join(timeout=60)
    return ended


def _reap_orphans() -> None:
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _cpu_of_children() -> float:
    used = os.times()
    return used.children_user + used.children_system
