"""What messages tell people to type: it runs as it is printed, once the blanks are filled in."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import incremental_assets
from incremental_assets.cli import main

PRINTED = re.compile(r"`incremental-assets ([a-z][^`]*)`")

FILLED = {
    "accept TEXT TEXT": "accept silver/sales 2017-01-05",
    "--days TEXT": "--days 2017-01-05",
    "--with TEXT": "--with kafka",
    "rebuild TABLE": "rebuild silver/sales",
    "BATCH": "1",
    "TEXT": "silver/sales",
}


def texts(file: Path) -> Iterator[str]:
    """Every text of a module; what is filled in stands there as TEXT."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(getattr(part, "value", "TEXT")) if isinstance(part, ast.Constant)
                          else "TEXT" for part in node.values)  # fmt: skip
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def remedies() -> list[str]:
    package = Path(incremental_assets.__file__).parent
    found = {
        " ".join(line.split())
        for file in package.rglob("*.py")
        for text in texts(file)
        for line in PRINTED.findall(text)
    }
    return sorted(found)


def test_they_are_found() -> None:
    assert {line.split()[0] for line in remedies()} >= {"run", "restate", "gate", "watermarks"}


@pytest.mark.parametrize("line", remedies())
def test_a_remedy_names_all_that_its_command_needs(line: str) -> None:
    for blank, filled in FILLED.items():
        line = line.replace(blank, filled)
    words, command, context = shlex.split(line), main, click.Context(main)
    while isinstance(command, click.Group):
        name, command, words = command.resolve_command(context, words)
        context = click.Context(command, info_name=name)

    command.parse_args(context, words)
