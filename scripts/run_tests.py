"""Run the tests in three processes at once, each with a Spark of its own.

A test mostly waits for one thread of one JVM, and the end-to-end tests for processes that they
started, so one pytest uses little more than one core. What the others say is shown when they are
done.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "incremental_assets_tests"
# About a third of the time each; whatever is named in none of them runs in the last process.
PARTS = (
    ("end_to_end",),
    (
        *("loaders", "changes", "sources", "verifying", "upkeep", "orchestration"),
        *("scenarios", "old_lakes"),
    ),
)
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--durations=15")


def main() -> int:
    """Run all parts; the exit status of one that failed, or 0."""
    named = [[str(TESTS / name) for name in part] for part in PARTS]
    ignored = [f"--ignore={path}" for part in named for path in part]
    shown, *others = [*named, [str(TESTS), *ignored]]
    with ExitStack() as stack:
        told = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in others]
        running = [
            subprocess.Popen([*PYTEST, *part], stdout=out, stderr=subprocess.STDOUT)
            for part, out in zip(others, told, strict=True)
        ]
        try:
            statuses = [subprocess.call([*PYTEST, *shown])]
            sys.stdout.write("The other parts of the tests are still running …\n")
            sys.stdout.flush()
            statuses += [process.wait() for process in running]
        finally:
            for process in running:
                process.terminate()  # of no effect where it has ended
                process.wait()
        for out in told:
            out.seek(0)
            sys.stdout.write(out.read())
    return next((status for status in statuses if status), 0)


if __name__ == "__main__":
    sys.exit(main())
