"""The one family of errors: each message has what was found, where, and what to do next."""

from __future__ import annotations

import re

# What libraries written in Rust add to their messages: colours, and a backtrace.
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_FRAMES = re.compile(r"(\n\s+\d+: [^\n]*(\n\s+at [^\n]*)?)+\s*")


STOPPED = "Stopped: nothing is half-written, and the next run settles what was begun."
"""The last line of a command that was interrupted."""
INTERRUPTED = 130
"""Its exit status, as shells know it: 128 and the number of the signal."""


class IncrementalAssetsError(Exception):
    """Base of every error that the project raises on purpose.

    The message alone must be enough for the person who reads it: what was found, where (table,
    day, batch, file), what was expected, and the remedy. What it quotes of a library's error has no
    colours and no backtrace.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(_FRAMES.sub("", _COLOUR.sub("", message)))


class OutputError(IncrementalAssetsError):
    """The output of a command cannot be written: the disk is full, a device is gone."""


class CommandError(IncrementalAssetsError):
    """A command line names something that does not exist: a table, a step, a program."""


class SettingsError(IncrementalAssetsError):
    """An environment variable holds something that cannot be used."""


class DayError(IncrementalAssetsError):
    """A day or a range of days is not what was asked for: unreadable, reversed, out of range."""


class DefinitionError(IncrementalAssetsError):
    """A table, rule or contract is declared in a way that cannot work."""


class TablesError(DefinitionError):
    """The package of tables cannot be imported, or its tables contradict each other."""


class SparkUnavailableError(IncrementalAssetsError):
    """Spark cannot be started: Java is missing or too old, or the jars were never resolved."""


class SourceError(IncrementalAssetsError):
    """A source cannot be read: missing, not permitted, or changed while it was being read."""


class NothingThereError(SourceError):
    """There is nothing at the path of a source."""


class LakeError(IncrementalAssetsError):
    """The lake cannot be written or read, or a table in it has an unexpected shape."""


class CatalogError(IncrementalAssetsError):
    """A catalog cannot be used to register a table."""


class EntryError(CatalogError):
    """A catalog refuses the entry of one table, or has something else under its name."""


class LedgerError(IncrementalAssetsError):
    """The ledger cannot be read or written, or is of a newer version."""


class ConflictError(IncrementalAssetsError):
    """Another run got in the way: nothing was published, run again."""


class WatermarkError(IncrementalAssetsError):
    """A watermark is of another kind, or claims more than was read."""


class SnapshotError(IncrementalAssetsError):
    """A snapshot is refused: it would delete more rows than max_deleted_share."""


class GateError(IncrementalAssetsError):
    """A rule holds a load: nothing was published, and its rows are still in the source."""


class WebhookError(IncrementalAssetsError):
    """The webhook did not accept an alert; its address is never named."""


class DemoFeedError(IncrementalAssetsError):
    """The demo feed cannot be landed."""
