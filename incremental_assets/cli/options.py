"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from incremental_assets.days import DayRange, parse_days

_Command = TypeVar("_Command", bound=Callable[..., Any])


def asked_days(span: str | None) -> DayRange | None:
    """The days that --days names; None, for all, only where it was left out.

    Raises DayError for empty text, too: it is what a variable gives that a script did not set.
    """
    return None if span is None else parse_days(span)


def not_empty(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    """Refuses empty text, which would otherwise count as an option that is left out."""
    if text is not None and not text.strip():
        raise click.BadParameter("It is empty; give a value, or leave it out.", context, option)
    return text


def limit_option(default: int) -> Callable[[_Command], _Command]:
    """The option --limit; `rows[: limit or None]` are those to show."""
    return click.option(
        "--limit",
        default=default,
        type=click.IntRange(min=0),
        show_default=True,
        help="Show at most so many rows; 0: all of them.",
    )


NAMES = click.argument("names", metavar="[TABLE]...", nargs=-1)
DAYS = click.option(
    "--days", "--day", "span", metavar="A...B", help="Only these days, both ends included."
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
    help="The reason; the ledger records it with your name.",
)
YES = click.option("--yes", is_flag=True, help="Do not ask.")
JSON_OBJECT = click.option("--json", "as_json", is_flag=True, help="A JSON object, for a program.")
