"""Each test runs once, whichever of the processes that share the queue takes its file."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections import Counter
from pathlib import Path

from incremental_assets.settings import PROJECT_ROOT

FILES = 6
# Each test of a file writes down which process it ran in; the pause lets both of them take files.
TEST = """
import os, time

def test_one():
    time.sleep(0.5)
    with open("ran", "a") as ran:
        ran.write(f"{os.getpid()} {__name__} one\\n")

def test_two():
    with open("ran", "a") as ran:
        ran.write(f"{os.getpid()} {__name__} two\\n")
    assert __name__ != "test_3"
"""


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    program = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    plugin = ["-p", "incremental_assets_tests.shared_queue", "--claims", "../claims"]
    return subprocess.Popen(
        [*program, *plugin, "--rootdir", str(folder), str(folder), *words],
        cwd=folder,
        env={"PYTHONPATH": str(PROJECT_ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_every_test_runs_in_one_process_and_one_that_fails_is_reported(tmp_path: Path) -> None:
    (tmp_path / "claims").mkdir()
    tests = tmp_path / "tests"
    tests.mkdir()
    for n in range(FILES):
        (tests / f"test_{n}.py").write_text(TEST)

    both = [start(tests), start(tests, "--from-the-end")]
    outputs = [process.communicate(timeout=120)[0] for process in both]

    ran = [line.split() for line in (tests / "ran").read_text().splitlines()]
    times = Counter((file, test) for _, file, test in ran)
    assert times == {(f"test_{n}", test): 1 for n in range(FILES) for test in ("one", "two")}
    of_file = {(file, process) for process, file, _ in ran}
    assert len(of_file) == FILES
    assert len({process for _, process in of_file}) == 2, outputs
    assert sorted(process.returncode for process in both) == [0, 1], outputs
    assert sum("assert 'test_3' != 'test_3'" in text for text in outputs) == 1


def test_the_processes_run_by_the_configuration_of_the_project(tmp_path: Path) -> None:
    command = runpy.run_path(str(PROJECT_ROOT / "scripts/run_tests.py"))["PYTEST"]

    done = subprocess.run(
        [*command, "--claims", str(tmp_path), "--markers"],
        cwd=PROJECT_ROOT,
        env=os.environ | {"PYTHONPATH": str(PROJECT_ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "@pytest.mark.thorough(held_by)" in done.stdout, done.stderr
