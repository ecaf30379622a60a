"""The commands of the Makefile, wherever the checkout is."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from incremental_assets.settings import PROJECT_ROOT

PROGRAM = """#!/bin/sh
echo "$(basename "$0") in $PWD: $*"
echo "$(basename "$0") $1 mutes: $PYTHONWARNINGS"
"""
# What `dagster dev` says at each start: that there is `dg dev`, which is of another package.
SUPERSEDED = "ignore:Function `dev_command` is superseded"


def test_the_ui_opens_on_its_port_in_a_checkout_whose_path_has_a_space(tmp_path: Path) -> None:
    root = tmp_path / "my shop" / "checkout"
    (root / ".venv" / "bin").mkdir(parents=True)
    (root / ".cache").mkdir()
    for name in ("Makefile", "dagster.yaml"):
        shutil.copy(PROJECT_ROOT / name, root / name)
    for name in ("requirements.lock", "pyproject.toml"):
        (root / name).touch()
    for name in ("jars.lock", "session.py"):
        (root / "incremental_assets" / "spark").mkdir(parents=True, exist_ok=True)
        (root / "incremental_assets" / "spark" / name).touch()
    for name in (".venv/.installed", ".cache/.prepared"):
        (root / name).touch()
    for name in ("python", "dagster", "incremental-assets"):
        (root / ".venv" / "bin" / name).write_text(PROGRAM)
        (root / ".venv" / "bin" / name).chmod(0o755)
    own = ("DAGSTER_HOME", "MAKEFLAGS", "PORT", "PYTHONWARNINGS")
    environment = {name: value for name, value in os.environ.items() if name not in own}

    done = subprocess.run(
        ["make", "--no-print-directory", "setup", "dev", "dev-connect", "PORT=3001"],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert (root / ".dagster" / "dagster.yaml").exists()
    assert sorted(path.name for path in root.parent.iterdir()) == ["checkout"]
    dev = f"dev -h 127.0.0.1 -p 3001 -w {root}/workspace.yaml"
    lines = done.stdout.splitlines()
    assert f"dagster in {root}/.dagster: {dev}" in lines
    connect = f"incremental-assets in {root}/.dagster: connect {root}/.venv/bin/dagster {dev}"
    assert connect in lines
    assert f"dagster dev mutes: {SUPERSEDED}" in lines
    assert f"incremental-assets connect mutes: {SUPERSEDED}" in lines
    assert lines.count(f"python in {root}: scripts/say_where.py 3001") == 2
