"""A command that is not there is reported before a Spark is started for it."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from incremental_assets_tests.cli.conftest import Command


def test_a_command_that_is_not_there_is_reported_in_one_sentence(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # in which there is none to be started

    done = command("connect", "no-such-program", "-w", "workspace.yaml", "--help")

    assert done.exit_code == 2
    assert done.stderr == (
        "Error: 'no-such-program' cannot be run: it is neither a command in the PATH nor a program at "
        "that path. Nothing was started.\n"
    )


def test_a_machine_without_java_is_reported_before_the_command_runs(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    done = command("connect", "touch", str(tmp_path / "ran"))

    assert done.exit_code == 1
    assert f"Java is missing: JAVA_HOME is {tmp_path} and holds no bin/java" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_script_that_no_program_is_named_for_is_reported(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = {"SPARK_REMOTE": "sc://localhost:15002"}
    monkeypatch.setattr(
        "incremental_assets.spark.server.connect_server", lambda _: nullcontext(server)
    )
    script = tmp_path / "script"
    script.write_text("touch ran\n")
    script.chmod(0o755)

    done = command("connect", str(script))

    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1] == (
        f"Error: '{script}' cannot be run: Exec format error. A script begins with the program "
        "that runs it, such as #!/bin/sh."
    )
