"""What `.ci/run` makes of what its commands print, and of how they end."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from incremental_assets.settings import PROJECT_ROOT

PROGRAMS = ("bash", "cat", "dirname", "env", "grep", "mktemp", "rm", "tail", "tee")
SET_UP = "Fetching the jars of Delta (15 MB) …\n  took 2 s\n"
DEMO = "In short: 15 tables, 2 days, 209,712 rows in, 180 in quarantine, 1 day held.\n"
LISTED = "silver/sales  2017-01-02  unit_price_unreadable   180            1           1\n"
IDLE = "Nothing is new or stale.\n"
# What the commands after the demo print, and end with.
BAD_DAY = [("Held.\n", 3), (LISTED, 0), ("Sent again.\n", 0), ("Loaded.\n", 0), (IDLE, 0)]
MAKE = '#!/bin/sh\necho "make $1, a browser is needed: $TESTS_NEED_BROWSER."\ncat "said/make $1"\n'
COMMAND = """#!/bin/sh
echo "$*" >> asked
n=$(grep -c . asked)
cat "said/$n"
exit "$(cat "said/$n.status")"
"""


@dataclass
class Checkout:
    """A checkout whose commands print what is written for them, on a machine without root."""

    root: Path

    def says(self, name: str, text: str) -> None:
        (self.root / "said" / name).write_text(text, encoding="utf-8")

    def program(self, path: str, text: str) -> None:
        program = self.root / path
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(text)
        program.chmod(0o755)

    def run(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.root / ".ci" / "run"],
            env={"PATH": str(self.root / "bin"), "LC_ALL": "C.UTF-8"},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    made = Checkout(tmp_path)
    for name in (".ci", "bin", "said"):
        (tmp_path / name).mkdir()
    shutil.copy(PROJECT_ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    for name in PROGRAMS:
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or "")
    made.program("bin/make", MAKE)
    made.program(".venv/bin/incremental-assets", COMMAND)
    for name, text in {"test": SET_UP, "lint": "", "demo": DEMO}.items():
        made.says(f"make {name}", text)
    for number, (text, status) in enumerate(BAD_DAY, 1):
        made.says(str(number), text)
        made.says(f"{number}.status", str(status))
    return made


def test_where_chromium_is_its_test_may_not_be_left_out(checkout: Checkout) -> None:
    for name in ("chromium", "chromedriver"):
        checkout.program(f"bin/{name}", "#!/bin/sh\n")

    done = checkout.run()

    assert (done.returncode, done.stderr) == (0, "")
    assert "make test, a browser is needed: 1." in done.stdout
    assert (checkout.root / "asked").read_text().splitlines() == [
        "run",
        "quarantine list silver/sales --day 2017-01-02",
        "demo repair 2017-01-02",
        "run",
        "run",
    ]


def test_without_chromium_all_else_is_checked_and_the_end_says_what_was_not(
    checkout: Checkout,
) -> None:
    done = checkout.run()

    assert done.returncode == 0
    assert "make test, a browser is needed: ." in done.stdout
    assert "Dagster's pages were NOT tested" in done.stderr


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("make test", SET_UP.splitlines()[0] + "\n", "of 1 steps of the set-up 0 say how long"),
        ("make demo", "What was loaded\n", "the demo has no summary"),
        ("make demo", f"26/11/28 WARN Utils: a\n{DEMO}", "would see these lines"),
        ("4", "SupersessionWarning: `dev_command` is superseded\n", "would see these lines"),
        ("2", "In quarantine: nothing.\n", "no bad row"),
        ("1.status", "0", "`incremental-assets run` ended with 0, not 3"),
        ("4.status", "1", "`incremental-assets run` ended with 1, not 0"),
        ("5", "Loaded.\n", "the last run found something"),
    ],
)
def test_what_a_reader_of_the_readme_should_not_see_fails(
    checkout: Checkout, name: str, text: str, message: str
) -> None:
    checkout.says(name, text)

    done = checkout.run()

    assert done.returncode == 1
    assert message in done.stderr
