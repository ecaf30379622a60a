"""Options and arguments that several commands have, and the types that check what is given.

A value is checked while the words are parsed, before anything is read, imported or started for it:
a type is a function of the text, which raises CommandError or DayError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from incremental_assets.choices import no_such
from incremental_assets.days import (
    DayRange,
    parse_day,
    parse_days,
    utc_today,
    within_partitions,
)
from incremental_assets.errors import CommandError
from incremental_assets.settings import Settings
from incremental_assets.table_names import no_such_table, table_names

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])


def _table(text: str) -> str:
    known = table_names(Settings.from_environment().tables)
    if text not in known:
        raise CommandError(str(no_such_table(text, known)))
    return text


def one_of(what: str, words: Sequence[str]) -> Callable[[str], str]:
    """A function that gives a word back, and raises CommandError for one that is not listed."""

    def checked(text: str) -> str:
        if text not in words:
            raise CommandError(no_such(what, text, words))
        return text

    return checked


def require_partitions(days: DayRange | None, settings: Settings) -> None:
    """Raise DayError where none of the days has a partition."""
    within_partitions(days, settings.start_date, utc_today(datetime.now(UTC)))


def not_empty(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """Refuses empty text, which would otherwise count as an option that is left out."""
    if text is not None and not text.strip():
        raise click.BadParameter("It is empty; give a value, or leave it out.", context, option)
    return text


def limit_option(default: int) -> Callable[[_Decorated], _Decorated]:
    """The option --limit; `rows[: limit or None]` are those to show."""
    return click.option(
        "--limit",
        default=default,
        type=click.IntRange(min=0),
        show_default=True,
        help="Show at most so many rows; 0: all of them.",
    )


NAME = click.argument("name", metavar="TABLE", type=_table)
NAMES = click.argument("names", metavar="[TABLE]...", nargs=-1, type=_table)
SOME_NAMES = click.argument("names", metavar="TABLE...", nargs=-1, required=True, type=_table)
DAY = click.argument("day", metavar="DAY", type=parse_day)
DAYS = click.option(
    "--days",
    "--day",
    "days",
    metavar="A...B",
    type=parse_days,
    help="Only these days, both ends included.",
)
RULE = click.option(
    "--rule", callback=not_empty, help="Only rows with this reason, as `quarantine list` prints it."
)
JSON = click.option("--json", "as_json", is_flag=True, help="A JSON array instead of a table.")
REASON = click.option(
    "--reason",
    "--why",
    "reason",
    required=True,
    callback=not_empty,
    help="The reason; the ledger records it with your name.",
)
YES = click.option("--yes", is_flag=True, help="Do not ask.")
JSON_OBJECT = click.option("--json", "as_json", is_flag=True, help="A JSON object, for a program.")
