"""A variable that is not set in a script gives an option empty text: it never means all."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from incremental_assets.cli import main
from incremental_assets_tests.cli.conftest import Command


def commands(of: click.Command = main, *path: str) -> Iterator[tuple[str, click.Command]]:
    """Every command that is no group, by its words."""
    if not isinstance(of, click.Group):
        yield " ".join(path), of
        return
    for name, inner in of.commands.items():
        yield from commands(inner, *path, name)


def with_option(option: str) -> list[tuple[str, ...]]:
    """The words of every command that has an option, with all else that it needs."""
    return [
        (*name.split(), *needed(command))
        for name, command in commands()
        if any(option in each.opts for each in command.params)
    ]


def needed(command: click.Command) -> Iterator[str]:
    for each in command.params:
        if isinstance(each, click.Argument) and each.required:
            yield "2017-01-05" if each.name == "day" else "silver/sales"
        elif each.required:
            yield from (each.opts[0], "2017-01-05" if each.metavar == "DAY" else "0")
        elif "--yes" in each.opts:
            yield "--yes"


DAYS = with_option("--days")
MUST_BE_AMONG_THEM = {
    ("quarantine", "drop"),
    ("watermarks", "rewind"),
    ("restate", "silver/sales"),
    ("run",),
    ("plan",),
}


def test_the_commands_with_days_are_found() -> None:
    assert {words[:2] for words in DAYS} >= MUST_BE_AMONG_THEM
    assert len(DAYS) >= 13


@pytest.mark.parametrize("words", DAYS, ids=lambda words: " ".join(words[:2]))
@pytest.mark.parametrize("option", ["--days", "--day"])
def test_no_command_takes_empty_days_for_all_days(
    command: Command, words: tuple[str, ...], option: str
) -> None:
    done = command(*words, option, "")

    assert done.exit_code == (2 if words[0] == "verify" else 1), done.output
    assert "'' is not a day; expected the form 2017-01-31, or A...B with three" in done.stderr


@pytest.mark.parametrize("option", ["--rule", "--scratch", "--landing"])
def test_no_command_takes_an_empty_option_for_one_that_was_left_out(
    command: Command, option: str
) -> None:
    for words in with_option(option):
        done = command(*words, option, "")

        assert done.exit_code == 2, (words, done.output)
        assert f"Invalid value for '{option}': It is empty" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("run", ""),
        ("plan", ""),
        ("maintain", "--only", ""),
        ("ledger", "rebuild", "", "--yes"),
        ("gate", "accept", "silver/sales", "", "--reason", "why"),
        ("gate", "accept", "silver/sales", "2017-01-05", "--reason", ""),
        ("watermarks", "rewind", "silver/sales", "--to", "", "--reason", "why", "--yes"),
        ("watermarks", "rewind", "silver/sales", "--to", "0", "--reason", "", "--yes"),
        ("demo", "land", "--from", "", "--to", "2017-01-05"),
    ],
    ids=" ".join,
)
def test_nor_an_empty_table_step_day_batch_or_reason(
    command: Command, words: tuple[str, ...]
) -> None:
    done = command(*words)

    assert done.exit_code == 1, done.output
    assert done.stderr.startswith("Error: ")
