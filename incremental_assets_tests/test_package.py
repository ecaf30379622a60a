"""What importing the package does, and what it leaves for later."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import dagster as dg
import pytest

import incremental_assets
from incremental_assets.errors import INTERRUPTED, STOPPED
from incremental_assets.orchestration.instance import CONFIG
from incremental_assets.settings import PROJECT_ROOT

SOURCE = Path(incremental_assets.__file__).read_text()
ROOT = Path(incremental_assets.__file__).parent
# What any release of a library may change.
PRIVATE = re.compile(r"\b(_jvm|_jsc|_jdf|_gateway)\b|\b(dagster|deltalake)\._[a-z]")
# What a Spark Connect session has not. Tests may start a Spark of their own.
NOT_OVER_CONNECT = re.compile(r"\bsparkContext\b|\.rdd\b|\bfrom delta\.tables\b")
# Dagster exports no type of a run launcher (see pyproject.toml).
EXEMPT = {"orchestration/launcher.py"}
EXEMPT_TESTS = {"orchestration/test_heartbeats.py", "orchestration/test_launcher.py"}
# Settings, and users and passwords of sources; the others start a process, or are started as one,
# and hand on what Python, Java, Spark and Dagster read themselves.
READS_ENVIRONMENT = {"settings.py", "sources/credentials.py"}
HANDS_ENVIRONMENT_ON = {
    *("cli/connect.py", "orchestration/instance.py", "spark/server.py", "spark/start.py"),
    "warm_up.py",
}


def python(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_tables_are_written_loaded_and_commanded_without_dagster_until_definitions_are_asked_for() -> (
    None
):
    done = python(
        "-c",
        "import sys, incremental_assets as i\n"
        "from incremental_assets import Table, LandedFiles, Append, Merge, SCD2, Contract, Text\n"
        "from incremental_assets import quarantine, not_null\n"
        "print('dagster' in sys.modules, 'defs' in dir(i))\n"
        "import incremental_assets.lakehouse, incremental_assets.cli\n"
        "print('dagster' in sys.modules)\n"
        "print(type(i.defs).__name__)\n",
    )

    assert done.stdout.splitlines() == ["False True", "False", "Definitions"], done.stderr


@pytest.mark.parametrize("command", [("run",), ("demo", "show")])
def test_a_setting_that_cannot_be_used_is_reported_in_one_line(command: tuple[str, ...]) -> None:
    done = python("-m", "incremental_assets", *command, INCREMENTAL_ASSETS_START_DATE="soon")

    assert done.returncode == 2
    assert "INCREMENTAL_ASSETS_START_DATE is 'soon'; expected a day" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_command_that_is_stopped_while_it_is_imported_ends_as_it_does_later() -> None:
    done = python(
        "-c",
        "import os, signal, sys\n"
        "class Stops:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'incremental_assets.cli.run':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Stops())\n"
        "from incremental_assets.__main__ import start\n"
        "start()\n",
    )

    assert (done.returncode, done.stdout, done.stderr.strip()) == (INTERRUPTED, "", STOPPED)


def test_every_name_of_the_front_door_is_there_and_is_listed_once() -> None:
    for name in incremental_assets.__all__:
        assert getattr(incremental_assets, name) is not None
    typed = re.search(r"if TYPE_CHECKING:\n(.*?)\n\n", SOURCE, re.DOTALL)
    assert typed is not None
    imported = set(re.findall(r"\b\w+\b", re.sub(r"from \S+ import", "", typed[1])))
    known = set(incremental_assets._MODULE_OF)
    assert imported == set(incremental_assets.__all__) == known - {"defs"}


def test_a_name_that_the_front_door_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'Tabel'"):
        _ = incremental_assets.Tabel


def files_with(pattern: re.Pattern[str], folder: Path) -> set[str]:
    files = [file for file in folder.rglob("*.py") if file != Path(__file__)]
    return {str(file.relative_to(folder)) for file in files if pattern.search(file.read_text())}


def test_nothing_is_used_that_is_private_or_not_there_over_connect() -> None:
    assert files_with(PRIVATE, ROOT) == EXEMPT
    assert files_with(PRIVATE, Path(__file__).parent) == EXEMPT_TESTS
    assert files_with(NOT_OVER_CONNECT, ROOT) == set()


@pytest.mark.parametrize(
    "line",
    [
        *("frame._jdf.sparkSession()", "session._jvm", "context._gateway.jvm", "context._jsc.sc()"),
        *("from dagster._core.utils import exhaust", "import dagster._time"),
        *("from deltalake._internal import RawDeltaTable", '"deltalake._util.encode"'),
    ],
)
def test_a_line_that_uses_a_private_part_is_found(line: str) -> None:
    assert PRIVATE.search(line)


@pytest.mark.parametrize(
    "line",
    ["session.sparkContext.getConf()", "rows.rdd.map(f)", "from delta.tables import DeltaTable"],
)
def test_a_line_that_uses_what_connect_lacks_is_found(line: str) -> None:
    assert NOT_OVER_CONNECT.search(line)


def test_settings_and_credentials_are_read_from_the_environment_in_one_place_each() -> None:
    used = files_with(re.compile(r"\bos\.environ\b|\bgetenv\b"), ROOT)

    assert used == READS_ENVIRONMENT | HANDS_ENVIRONMENT_ON


def test_where_the_assets_are_is_said_once_the_ui_answers() -> None:
    with HTTPServer(("127.0.0.1", 0), _Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = str(server.server_port)
        said = subprocess.run(
            [sys.executable, "scripts/say_where.py", port],
            cwd=PROJECT_ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        server.shutdown()

    assert f"The assets are at http://127.0.0.1:{port}/assets" in said.stdout


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - Python's name
        del format, args


def test_no_dialog_covers_the_first_page_of_the_ui(tmp_path: Path) -> None:
    shutil.copy(CONFIG, tmp_path)

    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert not instance.nux_enabled
        assert not instance.telemetry_enabled
