"""A command is one new file in `cli/`: nothing names it but itself."""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from incremental_assets.cli import main
from incremental_assets_tests.cli.commands import commands

COMMAND = '''"""`tables`: the names of the tables."""

from __future__ import annotations

from incremental_assets.cli.context import tables
from incremental_assets.cli.group import main
from incremental_assets.cli.output import OUT


@main.command("tables")
def show_tables() -> None:
    """The names of the tables, upstreams first."""
    for table in tables():
        OUT.print(table.name)
'''


def test_a_new_file_is_a_new_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tables.py").write_text(COMMAND)
    main.list_commands(click.Context(main))  # each module is imported once in a process
    monkeypatch.setattr(main, "commands", dict(main.commands))
    monkeypatch.delitem(sys.modules, "incremental_assets.cli.tables", raising=False)
    spec = find_spec("incremental_assets.cli")
    assert spec is not None
    assert spec.loader is not None
    assert spec.submodule_search_locations is not None
    spec.submodule_search_locations = [*spec.submodule_search_locations, str(tmp_path)]
    imported_again = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "incremental_assets.cli", imported_again)
    spec.loader.exec_module(imported_again)

    listed = CliRunner().invoke(main, ["--help"]).stdout
    done = CliRunner().invoke(main, ["tables"])

    assert "tables" in listed
    assert "The names of the tables, upstreams first." in listed
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == "bronze/events"


def test_every_file_has_its_commands_found_and_no_other_is_there() -> None:
    assert main.list_commands(click.Context(main)) == [
        "batches",
        "connect",
        "demo",
        "gate",
        "ledger",
        "maintain",
        "plan",
        "quarantine",
        "register",
        "restate",
        "retract",
        "run",
        "setup",
        "stale",
        "verify",
        "watermarks",
    ]
    assert "demo land" in dict(commands())
