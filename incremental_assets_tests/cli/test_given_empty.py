"""A variable that is not set in a script gives an option empty text: it never means all."""

from __future__ import annotations

import pytest

from incremental_assets_tests.cli.commands import with_option
from incremental_assets_tests.cli.conftest import Command

pytestmark = pytest.mark.usefixtures("lake")
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

    assert done.exit_code == 2, done.output
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
    ("words", "message"),
    [
        (("run", ""), "There is no table ''"),
        (("plan", ""), "There is no table ''"),
        (("quarantine", "list", ""), "There is no table ''"),
        (("ledger", "rebuild", "", "--yes"), "There is no table ''"),
        (("maintain", "--only", ""), "There is no step of maintenance ''"),
        (("gate", "accept", "silver/sales", "", "--reason", "x"), "'' is not a day"),
        (("gate", "accept", "silver/sales", "2017-01-05", "--reason", ""), "It is empty; give a"),
        (("watermarks", "rewind", "silver/sales", "--to", "", "--reason", "x"), "'' is neither a"),
        (("demo", "land", "--from", "", "--to", "2017-01-05"), "'' is not a day"),
    ],
)
def test_nor_an_empty_table_step_day_batch_or_reason(
    command: Command, words: tuple[str, ...], message: str
) -> None:
    done = command(*words)

    assert (done.exit_code, message in done.stderr) == (2, True), done.output
