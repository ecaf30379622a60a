"""Run the tests in three processes at once, each with a Spark of its own.

A test mostly waits for one thread of one JVM, and the end-to-end tests for processes that they
started, so one pytest uses little more than one core. The first process begins with the end-to-end
tests, the others with everything else; each takes the next file when it is done with one. What the
others say is shown when all are done. With `--all` they run all tests, else those of each run
(`incremental_assets_tests/thorough.py`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
OTHERS = 2
ALL = "--all"
PYTEST = (
    # Named, because pytest looks for it above all paths among its words, the folder of `--claims`
    # included, finds none, and runs without the markers, the filters of warnings, the test paths.
    *(sys.executable, "-m", "pytest", f"--config-file={PROJECT / 'pyproject.toml'}"),
    *("-p", "incremental_assets_tests.shared_queue"),
    # With the reason of each test that is left out, such as a browser that is not there.
    *("-q", "-rs", "-o", "console_output_style=classic", "--durations=15"),
)


def main(words: list[str]) -> int:
    """Run all tests, or the files and folders that are named; the exit status of a process that
    failed, or 0."""
    env = {**os.environ, "PYTHONPATH": str(PROJECT)}
    some = [] if ALL in words else ["-p", "incremental_assets_tests.thorough"]
    words = [*some, *(word for word in words if word != ALL)]
    with ExitStack() as stack:
        claims = stack.enter_context(tempfile.TemporaryDirectory())
        command = [*PYTEST, "--claims", claims, *words]
        outputs = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(OTHERS)]
        running = [
            subprocess.Popen(
                [*command, "--from-the-end"],
                cwd=PROJECT,
                env=env,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
            for out in outputs
        ]
        try:
            statuses = [subprocess.call(command, cwd=PROJECT, env=env)]
            sys.stdout.write("The last tests of the other processes are still running …\n")
            sys.stdout.flush()
            statuses += [process.wait() for process in running]
        finally:
            for process in running:
                process.terminate()  # of no effect where it has ended
                process.wait()
        for out in outputs:
            out.seek(0)
            sys.stdout.write(out.read())
    return next((status for status in statuses if status), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
