"""Options that several commands have."""

from __future__ import annotations

import click

AT_LEAST_0 = click.IntRange(min=0)
NAMES = click.argument("names", metavar="[TABLE]...", nargs=-1)
DAYS = click.option(
    "--days", "--day", "span", metavar="A...B", help="Only these days, both ends included."
)
RULE = click.option("--rule", default="", help="Only rows with this reason, as the list says it.")
JSON = click.option("--json", "as_json", is_flag=True, help="A JSON array instead of a table.")
YES = click.option("--yes", is_flag=True, help="Do not ask.")
JSON_OBJECT = click.option("--json", "as_json", is_flag=True, help="A JSON object, for a program.")
