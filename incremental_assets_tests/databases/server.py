"""What the database servers of the tests have in common: programs, start, stop and users."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import Signals
from typing import ClassVar, Self

from incremental_assets.spark.server import free_port
from incremental_assets_tests.databases import keeper

HOST = "127.0.0.1"
LOADER = "loader"  # may do anything in a test's database, and sees the sessions of all users
PLAIN = "plain"  # reads and changes the rows of a test's database, and sees its own sessions alone
ON_ROWS = "SELECT, INSERT, UPDATE, DELETE"  # the privileges of `plain`
PASSWORD = "secret"

_SECONDS_TO_START = 60
_SECONDS_TO_STOP = 30


class Server(ABC):
    """A database server in a folder of its own, with the users `loader` and `plain`.

    It neither outlives the process that started it nor runs as root: root starts it as nobody.
    """

    kind: ClassVar[str]
    # Ends the server at once, as a crash would: what was committed is there after the next start.
    stop_signal: ClassVar[Signals]

    def __init__(self, programs: Path, home: Path, log: Path) -> None:
        self.programs = programs
        self.home = home
        self.log = log
        self.host = HOST
        self.port = free_port()
        self._keeper: subprocess.Popen[bytes] | None = None

    @classmethod
    @contextmanager
    def started(cls, folder: Path) -> Iterator[Self]:
        """A new server with no databases; it is stopped and its data removed at the end.

        The folder gets its log. The data is in the system's folder for temporary files: no other
        user may pass through the folders that pytest makes for root.
        """
        programs = cls._fetched()
        with tempfile.TemporaryDirectory(prefix=f"{cls.kind}-") as home:
            if user := keeper.account():
                programs = _within_reach(programs, Path(home, "programs"))
                os.chown(home, user["user"], user["group"])
            server = cls(programs, Path(home), folder / f"{cls.kind}.log")
            server._initialise()
            try:
                server.start()
                yield server
            finally:
                server.stop()

    @property
    @abstractmethod
    def url(self) -> str:
        """The JDBC URL of the database that is always there."""

    def start(self) -> None:
        """Start the server on its port, and wait until it takes connections."""
        with self.log.open("ab") as log:
            self._keeper = subprocess.Popen(
                [
                    *(sys.executable, "-I", keeper.__file__),
                    *(str(self.stop_signal.value), str(self.home), *self._command()),
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=_environment(),
                start_new_session=True,  # Ctrl-C ends the tests, which then stop the server
            )
        latest = time.monotonic() + _SECONDS_TO_START
        while not self._answers():
            if self._keeper.poll() is not None or time.monotonic() > latest:
                raise RuntimeError(f"{self.kind} did not start: {self._last_lines()}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop the server at once, unless it is stopped; its data stays for the next start."""
        if self._keeper is not None:
            self._keeper.communicate(b"\n", timeout=_SECONDS_TO_STOP)
            self._keeper = None

    def restart(self) -> None:
        """Stop the server and start it again on the same port."""
        self.stop()
        self.start()

    @classmethod
    @abstractmethod
    def _fetched(cls) -> Path:
        """The folder with the server's programs."""

    @abstractmethod
    def _initialise(self) -> None:
        """Make the files of the server and its users."""

    @abstractmethod
    def _command(self) -> list[str]:
        """What runs the server in the foreground."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether the server takes connections."""

    def _file(self, name: str, text: str) -> Path:
        """A file that the server's user can read, whatever the umask."""
        path = self.home / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o644)
        return path

    def _run(self, *command: str, text: str = "") -> None:
        """Run a program as the server's user, with its output in the log."""
        with self.log.open("ab") as log:
            done = subprocess.run(
                command,
                input=text.encode(),
                stdout=log,
                stderr=log,
                cwd=self.home,
                env=_environment(),
                check=False,
                **keeper.account(),
            )
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]} failed: {self._last_lines()}")

    def _last_lines(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join([f"the last lines of {self.log} are", *lines[-30:]])


def _environment() -> dict[str, str]:
    """No settings of the machine or its user; the same language and time zone everywhere."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def _within_reach(programs: Path, copy: Path) -> Path:
    """The programs where every user can run them: a copy, if a folder above them is private."""
    programs = programs.resolve()
    if all(folder.stat().st_mode & 0o001 for folder in (programs, *programs.parents)):
        return programs
    shutil.copytree(programs, copy, symlinks=True, copy_function=_link_or_copy)
    return copy


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # on another disk
        shutil.copy2(source, target)
