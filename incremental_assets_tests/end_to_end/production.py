"""Dagster as several containers run it: PostgreSQL, code servers, a daemon and a webserver.

Each is a process of its own, with a process namespace and a host name of its own, as in a container:
none can see the processes of another, and when it is killed, everything that it started is gone. They
share the disk and the network. Where the kernel does not allow that, the tests are skipped.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import dagster as dg
import pytest
import yaml

from incremental_assets.orchestration.instance import open_instance
from incremental_assets.orchestration.process import (
    is_alive,
    recorded_heartbeat,
    recorded_process,
)
from incremental_assets.settings import PROJECT_ROOT
from incremental_assets.spark.server import free_port
from incremental_assets_tests.databases.postgresql import Database
from incremental_assets_tests.databases.server import HOST, LOADER, PASSWORD
from incremental_assets_tests.end_to_end.dagster_dev import Web, started_by, until
from incremental_assets_tests.end_to_end.shop import BIN, Shop

PAGE = PROJECT_ROOT / "docs" / "deploying.md"
CODE, DAEMON, WEBSERVER = "code", "daemon", "webserver"
API_SERVER = ("dagster", "api", "grpc")
CODE_SERVER = ("dagster", "code-server", "start")
# The daemon looks every few seconds for what it looks for; only how often it looks is changed.
_QUICK: Mapping[str, Any] = {
    "run_monitoring": {"poll_interval_seconds": 2, "start_timeout_seconds": 60},
    "run_queue": {"dequeue_interval_seconds": 1, "user_code_failure_retry_delay": 3},
    "run_launcher": {"config": {"heartbeat_timeout_seconds": 5}},
}
_SECONDS_TO_START = 120


@cache
def container() -> tuple[str, ...]:
    """What begins a command that is to run as if in a container; skips where that is not allowed."""
    own = ("--user", "--map-current-user") if os.geteuid() != 0 else ()
    command = ("unshare", *own, "--pid", "--uts", "--fork", "--kill-child", "--mount-proc")
    try:
        done = subprocess.run([*command, "true"], check=False, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("processes as in containers need Linux, and `unshare` of util-linux")
    if done.returncode:
        pytest.skip(f"processes as in containers are not allowed here: {done.stderr.strip()}")
    return command


def settings_of_page() -> dict[str, Any]:
    """The dagster.yaml that the page on deployment recommends."""
    (text,) = re.findall(r"^```yaml\n(storage:.*?)^```$", PAGE.read_text("utf-8"), re.M | re.S)
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def environment(database: Database) -> dict[str, str]:
    """The variables that this dagster.yaml reads."""
    return {
        "DAGSTER_PG_HOST": HOST,
        "DAGSTER_PG_PORT": str(database.port),
        "DAGSTER_PG_DB": database.name,
        "DAGSTER_PG_USER": LOADER,
        "DAGSTER_PG_PASSWORD": PASSWORD,
    }


class Part:
    """A process with all that it starts: a container."""

    def __init__(self, name: str, command: Sequence[str], home: Path, env: Mapping[str, str]):
        self._command, self._home, self._env = command, home, env
        self._log = home / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program, *words = self._command
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*container(), str(BIN / program), *words],
                cwd=self._home,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """`kill -9` of all of it; nothing where it is not running."""
        process, self._process = self._process, None
        if process is not None:
            stopped: set[int] = set()
            while new := {process.pid, *started_by(process.pid)} - stopped:
                _signal(new, signal.SIGSTOP)  # so that none of them starts another meanwhile
                stopped |= new
            _signal(stopped, signal.SIGKILL)
            process.wait(timeout=60)

    def processes(self) -> Iterable[int]:
        return started_by(self._process.pid) if self._process is not None else ()


class Production:
    """The parts of a deployment over a shop, none of them started yet."""

    def __init__(
        self, shop: Shop, locations: Mapping[str, Mapping[str, str]], program: Sequence[str]
    ):
        self._home = home = shop.home
        (home / "dagster.yaml").write_text(yaml.safe_dump(_quick(settings_of_page())))
        self.settings = shop.settings.replace(dagster_home=home)
        self.workspace = home / "workspace.yaml"
        ports = {name: free_port() for name in locations}
        servers = [{"grpc_server": _server(name, port)} for name, port in ports.items()]
        self.workspace.write_text(yaml.safe_dump({"load_from": servers}))
        path = os.pathsep.join([str(PROJECT_ROOT), str(home), os.environ.get("PYTHONPATH", "")])
        self._env = env = {**shop.env, "PYTHONPATH": path}
        self.parts = {
            name: Part(name, [*program, *_code(name, port)], home, {**env, **locations[name]})
            for name, port in ports.items()
        }
        self._ports = {**ports, WEBSERVER: free_port()}
        self._web = Web(self._ports[WEBSERVER])
        at = ("-w", str(self.workspace))
        where = ("-h", HOST, "-p", str(self._ports[WEBSERVER]))
        self.parts[DAEMON] = Part(DAEMON, ["dagster-daemon", "run", *at], home, env)
        self.parts[WEBSERVER] = Part(WEBSERVER, ["dagster-webserver", *where, *at], home, env)

    def start(self, *names: str) -> Web:
        """Start some parts at once, and wait until those answer that serve others."""
        for name in names:
            self.parts[name].start()
        for name in names:
            if name in self._ports:
                until(partial(_listens, self._ports[name]), _SECONDS_TO_START)
        if WEBSERVER in names:
            until(self._web.is_up, _SECONDS_TO_START)
        return self._web

    def instance(self) -> dg.DagsterInstance:
        """The instance of all parts, in this process."""
        return open_instance(self.settings)

    def start_sensor(self, name: str) -> None:
        """`dagster sensor start …`"""
        words = ["sensor", "start", name, "-w", str(self.workspace)]
        done = subprocess.run(
            [str(BIN / "dagster"), *words],
            cwd=self._home,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=_SECONDS_TO_START,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def kill(self) -> None:
        for part in self.parts.values():
            part.kill()

    def kill_process(self, run: dg.DagsterRun) -> None:
        """`kill -9` of the process of a run alone."""
        number = recorded_process(run).split("/")[2]
        here = [pid for part in self.parts.values() for pid in part.processes()]
        (found,) = (pid for pid in here if _number(pid) == number and _is_run(pid))
        os.kill(found, signal.SIGKILL)

    def cannot_be_seen(self, run: dg.DagsterRun) -> None:
        """Assert that only its own container sees the process of a run."""
        assert recorded_process(run)
        assert recorded_heartbeat(run)
        assert is_alive(recorded_process(run)) is None


@contextmanager
def production(
    shop: Shop,
    database: Database,
    locations: Mapping[str, Mapping[str, str]] = MappingProxyType({CODE: {}}),
    program: Sequence[str] = API_SERVER,
) -> Iterator[Production]:
    """A deployment, not started yet: its code locations, each with variables of its own.

    What was started of it is killed at the end.
    """
    container()  # or skip
    variables = environment(database)
    shop.env |= {**variables, "INCREMENTAL_ASSETS_SENSOR_SECONDS": "2"}
    with pytest.MonkeyPatch.context() as here:
        for name, value in {**variables, "DAGSTER_HOME": str(shop.home)}.items():
            here.setenv(name, value)
        made = Production(shop, locations, program)
        try:
            yield made
        finally:
            made.kill()


def _signal(pids: Iterable[int], which: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, which)


def _quick(config: dict[str, Any]) -> dict[str, Any]:
    return config | {name: {**config.get(name, {}), **quick} for name, quick in _QUICK.items()}


def _server(name: str, port: int) -> dict[str, Any]:
    return {"host": HOST, "port": port, "location_name": name}


def _code(name: str, port: int) -> list[str]:
    of = ["-m", "incremental_assets.definitions", "--location-name", name]
    return ["-h", HOST, "-p", str(port), *of]


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((HOST, port)) == 0


def _number(pid: int) -> str:
    """The number of a process in its own namespace."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return ""
    return next(line.split()[-1] for line in status.splitlines() if line.startswith("NSpid"))


def _is_run(pid: int) -> bool:
    """Whether a process was started by Python's multiprocessing, as the code server starts runs."""
    with suppress(OSError):
        return b"multiprocessing" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def package(folder: Path, name: str, **tables: str) -> dict[str, str]:
    """The variables of a code location with a package of some of the retailer's tables."""
    for layer in ("bronze", "silver", "gold"):
        (folder / name / layer).mkdir(parents=True)
        (folder / name / layer / "__init__.py").touch()
    (folder / name / "__init__.py").touch()
    for layer, table in tables.items():
        module = f"incremental_assets.retail.{layer}.{table.lower()}"
        file = folder / name / layer / f"{table.lower()}.py"
        file.write_text(f'from {module} import {table}\n\n__all__ = ["{table}"]\n')
    return {"INCREMENTAL_ASSETS_TABLES": name}
