"""Every command of `incremental-assets`, with what it needs to be run."""

from __future__ import annotations

from collections.abc import Iterator

import click

from incremental_assets.cli import main


def commands(of: click.Command = main, *path: str) -> Iterator[tuple[str, click.Command]]:
    """Every command that is no group, by its words."""
    if not isinstance(of, click.Group):
        yield " ".join(path), of
        return
    context = click.Context(of)
    for name in of.list_commands(context):
        inner = of.get_command(context, name)
        assert inner is not None
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
