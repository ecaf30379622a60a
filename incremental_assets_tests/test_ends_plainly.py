"""A command that is interrupted, or cannot write, ends with one sentence and no traceback."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from incremental_assets.cli import main
from incremental_assets.errors import INTERRUPTED, STOPPED
from incremental_assets.ledger.ledger import Ledger, ledger_path
from incremental_assets.settings import PREFIX, Settings
from incremental_assets_tests.plan.ledgers import EVENTS, did
from incremental_assets_tests.thorough import thorough

ONE_LINE = """
import sys
from incremental_assets.cli import output
from incremental_assets.cli.group import main

@main.command()
def say():
    output.OUT.print("… and more")
    output.write('{"town": "Köln 🏰"}')

from incremental_assets.__main__ import start
sys.argv = ["incremental-assets", "say"]
start()
"""
OTHER_OUTPUT = "test_ends_plainly.py: a table that cannot be written, JSON that nobody reads"
BATCHES = (sys.executable, "-m", "incremental_assets", "batches")
# A command amid a call of a library that logs a traceback wherever it is interrupted.
WAITING = """
import logging, time
from incremental_assets.cli import main
from incremental_assets.cli.interrupts import end_quietly

# Printed by the main thread: an interrupt may come while it holds the lock of its output.
stopped = []

@main.command()
def wait():
    try:
        print("ready", flush=True)
        time.sleep(60)
    except KeyboardInterrupt:
        logging.exception("interrupted amid a call")
        print(*stopped, flush=True)
        raise THEN

end_quietly(lambda: stopped.append("Java is gone"))
main(["wait"])
"""


@pytest.fixture
def environment(settings: Settings) -> dict[str, str]:
    """Names a lake of one batch."""
    Ledger(ledger_path(settings.lake)).transact_on(EVENTS.name, lambda _: [did(EVENTS, 1, 5)])
    lake = {f"{PREFIX}LAKE": settings.lake, f"{PREFIX}LANDING": settings.landing}
    return {**os.environ, **lake}


@pytest.mark.parametrize("then", ["", "OSError('Java is gone')", "SystemExit(2)"])
def test_an_interrupted_command_stops_spark_and_says_one_sentence(then: str) -> None:
    command = [sys.executable, "-c", WAITING.replace("THEN", then)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as at:
        assert at.stdout is not None
        assert at.stdout.readline() == "ready\n"

        at.send_signal(signal.SIGINT)
        out, err = at.communicate(timeout=20)

    assert at.returncode == INTERRUPTED
    assert out == "Java is gone\n"
    assert err.strip() == STOPPED


def test_what_an_encoding_lacks_is_printed_as_a_question_mark_and_in_json_as_an_escape() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ONE_LINE],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    printed, written = done.stdout.splitlines()
    assert printed == "? and more"
    assert json.loads(written) == {"town": "Köln 🏰"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_help_that_cannot_be_written_is_reported() -> None:
    for words in (["--help"], ["run", "--help"]):
        with Path("/dev/full").open("w") as full:
            command = [sys.executable, "-m", "incremental_assets", *words]
            done = subprocess.run(
                command, stdout=full, stderr=subprocess.PIPE, text=True, check=False
            )

        message = "Error: cannot write the output: No space left on device\n"
        assert (done.returncode, done.stderr) == (1, message)


def test_a_full_disk_is_not_called_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/lake/_marker")

    monkeypatch.setattr("incremental_assets.cli.batches.ledger_view", full)

    done = CliRunner().invoke(main, ["batches"])

    assert done.exit_code == 1
    assert done.stderr.startswith("Error: /lake/_marker cannot be written: No space left on device")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize(
    "words", [(), pytest.param(("--json",), marks=thorough(OTHER_OUTPUT))], ids=str
)
def test_output_that_cannot_be_written_is_reported(
    environment: dict[str, str], words: tuple[str, ...]
) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*BATCHES, *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            check=False,
        )

    assert done.returncode == 1
    assert done.stderr == "Error: cannot write the output: No space left on device\n"


@pytest.mark.parametrize(
    "words", [pytest.param((), marks=thorough(OTHER_OUTPUT)), ("--json",)], ids=str
)
def test_a_reader_that_has_read_enough_hears_nothing(
    environment: dict[str, str], words: tuple[str, ...]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*BATCHES, *words],
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            check=False,
        )
    finally:
        os.close(writing)

    assert done.stderr == ""
