"""`connect`: one Spark for as long as a command runs, shared by all its loads."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence

import click

from incremental_assets.cli.group import main
from incremental_assets.cli.output import ERR
from incremental_assets.errors import CommandError
from incremental_assets.settings import Settings

_BY_SIGNAL = 128  # how shells report the status of a command that a signal ended


@main.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("words", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
def connect(words: tuple[str, ...]) -> None:
    """Keep one Spark for a command, such as `dagster dev`.

    Starts a Spark Connect server on this machine, runs the command with SPARK_REMOTE set to it, and
    stops the server when the command ends. Tables that do not depend on each other load at once
    over it, and no run waits for a Spark of its own. The exit status is that of the command.
    """
    from incremental_assets.spark.server import connect_server

    if shutil.which(words[0]) is None:
        raise CommandError(
            f"{words[0]!r} cannot be run: it is neither a command in the PATH nor a program at "
            "that path. Nothing was started."
        )
    ERR.print("Starting a Spark Connect server …")
    with connect_server(Settings.from_environment()) as environment:
        ERR.print(f"Spark listens at {environment['SPARK_REMOTE']}.")
        status = _run(words, {**os.environ, **environment})
    sys.exit(status)


def _started(words: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(words, env=environment)
    except OSError as error:
        raise CommandError(
            f"{words[0]!r} cannot be run: {error.strerror or error}. A script begins with the "
            "program that runs it, such as #!/bin/sh."
        ) from error


def _run(words: Sequence[str], environment: dict[str, str]) -> int:
    """Run a command to its end, and give its exit status.

    A Ctrl-C in the terminal is the command's own: this process waits for its end. So is a SIGTERM,
    which is handed on to it.
    """
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, lambda *_: None)
    try:
        command = _started(words, environment)
        signal.signal(signal.SIGTERM, lambda *_: command.terminate())
        status = command.wait()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    return status if status >= 0 else _BY_SIGNAL - status
