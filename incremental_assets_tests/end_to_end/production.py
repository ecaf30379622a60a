"""Dagster as several containers run it: PostgreSQL, code servers, a daemon and a webserver.

Each is a process of its own. Where the kernel allows it, each has a process namespace and a host
name of its own, as in a container: none can see the processes of another, and when it is killed,
everything that it started is gone. They share the disk and the network.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from incremental_assets.orchestration.process import recorded_process
from incremental_assets.settings import PROJECT_ROOT
from incremental_assets.spark.server import free_port
from incremental_assets_tests.databases.postgresql import Database
from incremental_assets_tests.databases.server import HOST, LOADER, PASSWORD
from incremental_assets_tests.end_to_end.dagster_dev import Web, started_by, until
from incremental_assets_tests.end_to_end.shop import Shop

PAGE = PROJECT_ROOT / "docs" / "deploying.md"
LOCATION = "incremental_assets"
# The daemon looks every few seconds for what it looks for; only how often it looks is changed.
_QUICK: Mapping[str, Any] = {
    "run_monitoring": {"poll_interval_seconds": 2, "start_timeout_seconds": 60},
    "run_queue": {"dequeue_interval_seconds": 1},
}
_SECONDS_TO_START = 120


@cache
def container() -> tuple[str, ...]:
    """What begins a command that is to run as if in a container; empty where that is not allowed."""
    own = ("--user", "--map-current-user") if os.geteuid() != 0 else ()
    command = ("unshare", *own, "--pid", "--uts", "--fork", "--kill-child", "--mount-proc")
    try:
        done = subprocess.run([*command, "true"], check=False, capture_output=True)
    except FileNotFoundError:
        return ()
    return command if done.returncode == 0 else ()


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
        self.name = name
        self._command, self._home, self._env = command, home, env
        self._log = home / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*container(), sys.executable, "-m", *self._command],
                cwd=self._home,
                env={**self._env, "PYTHONPATH": _import_path()},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """`kill -9` of all of it; nothing where it is not running."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=60)

    def kill_process(self, run: dg.DagsterRun) -> None:
        """`kill -9` of the process of a run alone."""
        assert self._process is not None
        number = recorded_process(run).split("/")[2]
        (found,) = (pid for pid in started_by(self._process.pid) if _number(pid) == number)
        os.kill(found, signal.SIGKILL)

    def log(self) -> str:
        return self._log.read_text("utf-8", errors="replace")


class Production:
    """The parts of a deployment over a shop; what is started is ended with the block."""

    def __init__(self, shop: Shop, database: Database, locations: Mapping[str, Mapping[str, str]]):
        shop.env |= {**environment(database), "INCREMENTAL_ASSETS_SENSOR_SECONDS": "2"}
        config = settings_of_page()
        for section, quick in _QUICK.items():
            config[section] = {**config.get(section, {}), **quick}
        (shop.home / "dagster.yaml").write_text(yaml.safe_dump(config))
        self._shop = shop
        self._ports = {name: free_port() for name in locations}
        servers = [{"grpc_server": _server(name, port)} for name, port in self._ports.items()]
        self.workspace = shop.home / "workspace.yaml"
        self.workspace.write_text(yaml.safe_dump({"load_from": servers}))
        self.code = {
            name: self._part(name, *_code_server(name, port), **locations[name])
            for name, port in self._ports.items()
        }
        self._web_port = free_port()
        at = ["-w", str(self.workspace)]
        self.daemon = self._part("daemon", "dagster", "daemon", "run", *at)
        where = ["-h", HOST, "-p", str(self._web_port)]
        self.webserver = self._part("webserver", "dagster_webserver", *where, *at)
        self.web = Web(self._web_port)

    def start_code(self) -> None:
        """Start the code servers, and wait until they answer."""
        for part in self.code.values():
            part.start()
        for port in self._ports.values():
            until(lambda port=port: _listens(port), _SECONDS_TO_START)  # type: ignore[misc]

    def start_webserver(self) -> Web:
        self.webserver.start()
        until(self.web.is_up, _SECONDS_TO_START)
        return self.web

    def instance(self) -> dg.DagsterInstance:
        """The instance of all parts, in this process."""
        return self._shop.instance()

    def kill(self) -> None:
        for part in (self.daemon, self.webserver, *self.code.values()):
            part.kill()

    def _part(self, name: str, *command: str, **env: str) -> Part:
        return Part(name, command, self._shop.home, {**self._shop.env, **env})


@contextmanager
def production(
    shop: Shop, database: Database, locations: Mapping[str, Mapping[str, str]] | None = None
) -> Iterator[Production]:
    """A deployment, not started yet: its code locations, each with variables of its own."""
    made = Production(shop, database, locations or {LOCATION: {}})
    with_variables = {name: os.environ.get(name) for name in environment(database)}
    os.environ.update(environment(database))
    try:
        yield made
    finally:
        made.kill()
        for name, value in with_variables.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _server(name: str, port: int) -> dict[str, Any]:
    return {"host": HOST, "port": port, "location_name": name}


def _code_server(name: str, port: int) -> list[str]:
    module = ["-m", "incremental_assets.definitions", "--location-name", name]
    return ["dagster", "code-server", "start", "-h", HOST, "-p", str(port), *module]


def _number(pid: int) -> str:
    """The number of a process in its own namespace."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return ""
    return next(line.split()[-1] for line in status.splitlines() if line.startswith("NSpid"))


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((HOST, port)) == 0


def _import_path() -> str:
    theirs = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(filter(None, [str(PROJECT_ROOT), theirs]))
