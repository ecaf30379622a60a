"""The demo of the loaders: what it shows, how it ends, and that it leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incremental_assets.errors import LakeError, SparkUnavailableError
from incremental_assets.retail.loaders import demo
from incremental_assets.screen import Screen
from incremental_assets.settings import PROJECT_ROOT
from incremental_assets_tests.end_to_end.shop import log_without_a_jvm
from incremental_assets_tests.thorough import thorough

Demonstrated = tuple[subprocess.CompletedProcess[str], Path]
TABLES = ("orders", "payments", "customers", "products")


def cells(text: str) -> list[list[str]]:
    """The rows of all tables that were printed."""
    lines = [line for line in text.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def console(*, terminal: bool = False) -> tuple[Screen, StringIO]:
    text = StringIO()
    return Screen(file=text, width=120, force_terminal=terminal), text


@pytest.fixture(scope="module")
def demonstrated(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Demonstrated:
    """The command, run once over the Spark of the tests."""
    folder, out, said = tmp_path_factory.mktemp("demo"), StringIO(), StringIO()
    with pytest.MonkeyPatch.context() as here, redirect_stderr(said):
        here.setattr(tempfile, "tempdir", str(folder))
        here.setattr(demo, "local_session", lambda: spark)
        here.setattr(spark, "stop", lambda: None)
        status = demo.main(Screen(file=out, width=120))
        done = subprocess.CompletedProcess("loaders", status, out.getvalue(), said.getvalue())
    return done, folder


def test_the_command_removes_its_folder(demonstrated: Demonstrated) -> None:
    done, folder = demonstrated

    assert done.returncode == 0, done.stderr
    last = cells(done.stdout)[-len(TABLES) :]
    assert sorted(row[0] for row in last) == sorted(TABLES)
    assert "orders, load 1" in done.stderr
    assert list(folder.glob("incremental-assets-*")) == []


@thorough("loaders/test_main.py, spark/test_start.py: the same in the process of the tests")
def test_the_command_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    done = in_a_process(TMPDIR=str(tmp_path))

    assert done.returncode == 0, done.stderr
    assert "orders, load 1" in done.stderr
    assert "WARN" not in done.stderr
    assert list(tmp_path.glob("incremental-assets-*")) == []


def test_the_command_names_what_it_lacks(tmp_path: Path) -> None:
    java_home, _ = log_without_a_jvm(tmp_path)

    done = in_a_process(JAVA_HOME=str(java_home), PATH=f"{java_home}/bin:/usr/bin:/bin")

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("Error: "), done.stderr
    assert "Traceback" not in done.stderr


def in_a_process(**env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "incremental_assets.loaders"],
        cwd=PROJECT_ROOT,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_each_load_is_counted_and_the_target_shown(demonstrated: Demonstrated) -> None:
    text = demonstrated[0].stdout

    rows = cells(text)
    loads = [row[:-1] for row in rows if row[0] in ("1", "2") and len(row) == 8]
    assert loads == [
        ["1", "3", "3", "0", "0", "0", "none → 2024-05-10T09:45:00Z"],
        ["2", "4", "2", "1", "0", "1", "2024-05-10T09:45:00Z → 2024-05-10T10:20:00Z"],
        ["1", "4", "4", "0", "0", "0", "none → 6"],
        ["2", "3", "3", "0", "0", "0", "6 → 8"],
        ["1", "3", "3", "0", "0", "0", "none → 6"],
        ["2", "4", "1", "1", "1", "0", "6 → 9"],
        ["1", "5", "5", "0", "0", "0", "none → 2024-05-10T10:00:00Z"],
        ["2", "5", "1", "1", "1", "0", "2024-05-10T10:00:00Z → 2024-05-10T11:00:00Z"],
    ]
    assert ["1", "paid", "2024-05-10T10:20:00Z"] in rows
    assert ["5", "placed", "2024-05-10T09:20:00Z"] in rows
    assert "payment_id has gaps: 4…5" in text
    assert [row for row in rows if len(row) == 2 and row[0] in "1234"][-3:] == [
        ["1", "Anna"],
        ["3", "Cleo"],
        ["4", "Dan"],
    ]
    assert ["a", "apple", "2"] in rows
    assert ["d", "dates", "5"] not in rows
    assert ["payments", "8", "2024-05-10T11:00:00Z"] in rows


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "elsewhere"])
def test_progress_goes_to_the_terminal_or_to_the_log(
    terminal: bool, caplog: pytest.LogCaptureFixture
) -> None:
    out, text = console(terminal=terminal)

    with caplog.at_level("INFO", "incremental_assets"), demo._steps(out) as steps:
        steps.begin("orders, load 1")
        steps.log("orders: 1 rows quarantined [why]")
        steps.end()

    lines = ["orders, load 1", "orders: 1 rows quarantined [why]"]
    assert caplog.messages == ([] if terminal else lines)
    assert all((line in text.getvalue()) == terminal for line in lines)


class _Session:
    """Stands for a Spark that was started."""

    stopped = False

    def stop(self) -> None:
        self.stopped = True


def _fails(*_: object) -> None:
    raise LakeError("the table [x]\ncannot be written")


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "elsewhere"])
def test_an_error_of_the_project_is_one_line_and_leaves_nothing(
    terminal: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    session = _Session()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(demo, "local_session", lambda: session)
    monkeypatch.setattr(demo, "run", _fails)

    status = demo.main(console(terminal=terminal)[0])

    assert status == 1
    assert capsys.readouterr().err.splitlines()[-1:] == ["Error: the table [x] cannot be written"]
    assert session.stopped
    assert list(tmp_path.iterdir()) == []


def test_a_spark_that_does_not_start_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none() -> None:
        raise SparkUnavailableError("Java is missing")

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(demo, "local_session", none)

    assert demo.main(console(terminal=True)[0]) == 1

    assert capsys.readouterr().err.splitlines() == ["Error: Java is missing"]
    assert list(tmp_path.iterdir()) == []


def test_anything_else_that_fails_still_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = _Session()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(demo, "local_session", lambda: session)
    monkeypatch.setattr(demo, "run", interrupted)

    with pytest.raises(KeyboardInterrupt):
        demo.main(console(terminal=True)[0])

    assert session.stopped
    assert list(tmp_path.iterdir()) == []
