"""The command that all others belong to: how it prints an error, and with which status it ends.

`docs/command-line.md` lists the statuses of each command.
"""

from __future__ import annotations

import errno
import importlib
import pkgutil
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click
from click.exceptions import NoArgsIsHelpError

from incremental_assets.cli.interrupts import was_interrupted
from incremental_assets.cli.output import ERR, bad, log, refused_if_full
from incremental_assets.errors import (
    INTERRUPTED,
    STOPPED,
    CommandError,
    DayError,
    IncrementalAssetsError,
    OutputError,
    SettingsError,
    TablesError,
)
from incremental_assets.scan_progress import on_screen, showing

_PACKAGE, _PROGRAM = __package__, "incremental-assets"
FAILED, WRONG_INPUT = 1, 2
_WRONG = (SettingsError, DayError, CommandError, TablesError)


class _Command(click.Command):
    """A command whose help has an error of its own where it cannot be written.

    Click prints `--help` and `--version` while it parses the words, and nothing else.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with refused_if_full():
            return super().parse_args(ctx, args)


class _Commands(_Command, click.Group):
    """A group of such commands."""

    command_class = _Command


class _Group(_Commands):
    """Errors that the project raises on purpose are printed as their message, without a trace.

    So are words that no command knows, in one line instead of Click's usage and three lines.
    """

    group_class = _Commands

    def list_commands(self, ctx: click.Context) -> list[str]:
        for name in _modules():
            self.get_command(ctx, name)
        return super().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands and cmd_name in _modules():
            importlib.import_module(f"{_PACKAGE}.{cmd_name}")
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None:
            self.list_commands(ctx)  # which of them was meant
        return super().resolve_command(ctx, args)

    def main(self, args: Sequence[str] | None = None, *_: Any, **how: Any) -> NoReturn:
        how |= {"prog_name": _PROGRAM, "standalone_mode": False}
        try:
            status = super().main(args, **how)
        except NoArgsIsHelpError as error:
            error.show()
            sys.exit(WRONG_INPUT)
        except click.ClickException as error:
            bad("Error:", _in_a_line(error))
            sys.exit(error.exit_code)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            bad("Error:", _disk_full(error))  # of a file: what is printed has its own error
            sys.exit(FAILED)
        except OutputError as error:  # of the help of this group
            bad("Error:", str(error))
            sys.exit(FAILED)
        except click.Abort:  # a question was answered with no
            if was_interrupted():
                _end_stopped()
            log("Nothing was changed; --yes leaves the question out.")
            sys.exit(FAILED)
        sys.exit(status)

    def invoke(self, ctx: click.Context) -> object:
        try:
            with showing(on_screen(ERR)):
                return super().invoke(ctx)
        except KeyboardInterrupt:
            _end_stopped()
        except (Exception, SystemExit) as error:
            if was_interrupted():
                _end_stopped()
            if not isinstance(error, IncrementalAssetsError):
                raise
            bad("Error:", str(error))
            sys.exit(WRONG_INPUT if isinstance(error, _WRONG) else FAILED)


def _modules() -> list[str]:
    return [module.name for module in pkgutil.iter_modules(sys.modules[_PACKAGE].__path__)]


def _disk_full(error: OSError) -> str:
    return (
        f"{error.filename or 'A file'} cannot be written: {error.strerror}. Make room, and repeat."
    )


def _in_a_line(error: click.ClickException) -> str:
    message = error.format_message()
    if not isinstance(error, click.UsageError) or not error.ctx:
        return message
    return f"{message} `{error.ctx.command_path} --help` shows what it takes."


def _end_stopped() -> NoReturn:
    log(f"\n{STOPPED}")
    sys.exit(INTERRUPTED)


_STATUSES = (
    "Exit status: 0 done; 1 failed, or a gate held a day; 2 wrong words or settings, nothing was "
    "started; 3 (run) only days that were held before; 130 stopped by Ctrl-C."
)


@click.group(cls=_Group, epilog=_STATUSES)
@click.version_option(package_name="incremental-assets")
def main() -> None:
    """Incremental loading on Spark and Delta Lake, day by day and exactly once."""
