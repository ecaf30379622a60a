"""Run the tests in two processes at once, each with a Spark of its own.

A test mostly waits for one thread of one JVM, so one process uses little more than one core. What
the second process says is shown when it is done.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "incremental_assets_tests"
# About half of the time; whatever is not named here runs in the other process.
FIRST = ("end_to_end", "changes", "sources", "object_store")
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")


def main() -> int:
    """Run both halves; the exit status of one that failed, or 0."""
    first = [str(TESTS / name) for name in FIRST]
    rest = [str(TESTS), *(f"--ignore={path}" for path in first)]
    with tempfile.TemporaryFile("w+") as told:
        other = subprocess.Popen([*PYTEST, *rest], stdout=told, stderr=subprocess.STDOUT)
        try:
            status = subprocess.call([*PYTEST, *first])
            sys.stdout.write("The other half of the tests is still running …\n")
            sys.stdout.flush()
            other_status = other.wait()
        finally:
            other.terminate()  # of no effect where it has ended
            other.wait()
        told.seek(0)
        sys.stdout.write(told.read())
    return status or other_status


if __name__ == "__main__":
    sys.exit(main())
