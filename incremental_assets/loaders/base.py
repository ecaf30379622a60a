"""What the four loaders share: a session, a clock, and how a target is put together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from incremental_assets.changes.watermark import Advance, Seen, furthest
from incremental_assets.engine.target import TargetTable
from incremental_assets.errors import DefinitionError
from incremental_assets.loaders.target import Target
from incremental_assets.locations import location, table_location
from incremental_assets.quality.rules import Rule
from incremental_assets.sources.source import Source
from incremental_assets.sources.stored import Stored
from incremental_assets.sources.stored_files import Format
from incremental_assets.writes import SCD2, Append, Merge, WriteStrategy

_LOG = logging.getLogger("incremental_assets")
ColumnNames = str | Iterable[str]
RuleOrRules = Rule | Iterable["RuleOrRules"]


class IncrementalLoader:
    """Base of the loaders.

    `spark` is any session, embedded or of Spark Connect; `clock` gives the time that a load fixes
    once; `log` takes one line of progress at a time (by
    default the logger `incremental_assets`, level INFO).

    For watermark logic of one's own, override `next_watermark`:

        class Cautious(TimestampBasedLoader):
            def next_watermark(self, before, seen):
                found = super().next_watermark(before, seen)
                late = found and found - timedelta(minutes=10)
                return max(filter(None, (before, late)), default=None)
    """

    def __init__(
        self,
        spark: SparkSession,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        log: Callable[[str], None] = _LOG.info,
    ) -> None:
        self.spark = spark
        self.clock = clock
        self.log = log

    def next_watermark(self, before: Any, seen: Seen) -> Any:
        """The watermark after a load; by default the highest value ever seen.

        `before` is the one before (a datetime in UTC or an int, None at first), `seen` the lowest
        and highest value of the rows that were read, how many there were, and `now`. What is
        given may lie anywhere from `before` to the highest value: rows above it are read again
        and not loaded twice. Anything else is a WatermarkError, and nothing is loaded.
        """
        return furthest(before, seen)

    def _advance(self, function: Advance | None) -> Advance | None:
        """A function that was given, or the hook where somebody has overridden it."""
        own = type(self).next_watermark is not IncrementalLoader.next_watermark
        return function or (self.next_watermark if own else None)

    def _target(self, table: TargetTable) -> Target:
        return Target(table, self.spark, self.clock, self.log)


def path_of(name: str, value: str | Path) -> str:
    """A path that was given, checked: absolute, or the URI of an object store."""
    if not isinstance(value, str | Path):
        kind = type(value).__name__
        raise DefinitionError(
            f"{name} is of the type {kind}; expected a path or the URI of an object store, or, "
            "for what is read, a Source."
        )
    if not str(value).strip():
        raise DefinitionError(f"{name} is empty; expected a path or the URI of an object store.")
    return location(name, str(value))


def table_path_of(name: str, value: str | Path) -> str:
    """The same for a Delta table."""
    return table_location(name, path_of(name, value))


def source_of(name: str, value: str | Path | Source, kind: Format | None) -> Source:
    """A source that was given, as it is or by its path and format.

    Raises DefinitionError for one below the landing root, which a loader has not, and for a format
    that nobody would look at.
    """
    if not isinstance(value, Source):
        return Stored(path_of(name, value), kind)
    if value.is_landed:
        raise DefinitionError(
            f"{name} is {value.path!r} below a landing root, and a loader has none; give an "
            "absolute path or a URI."
        )
    if kind is not None:
        raise DefinitionError(
            f"{name} is a source, and source_format={kind!r} is for a path; leave it out, or give "
            "the format to the source."
        )
    return value


def names_of(value: ColumnNames | None) -> tuple[str, ...]:
    """One name or several."""
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


def rules_of(rules: RuleOrRules) -> tuple[Rule, ...]:
    """Rules, however nested: `rules=[*quarantine(…)]` and `rules=[quarantine(…)]` alike."""
    if isinstance(rules, Iterable) and not isinstance(rules, str):
        return tuple(rule for each in rules for rule in rules_of(each))
    if not isinstance(rules, Rule):
        raise DefinitionError(
            f"{rules!r} is no rule; build one, such as "
            "quarantine(satisfies('price_ok', 'price >= 0'))."
        )
    return (rules,)


def write_of(
    write: WriteStrategy | None,
    key: tuple[str, ...],
    ignore_changes_in: tuple[str, ...],
    *,
    history: bool,
) -> WriteStrategy:
    """How the rows land: as `write` says, or else by whether there is a key and a history."""
    if isinstance(write, SCD2) and write.valid_time == "event":
        raise DefinitionError(
            'A loader measures a history in the numbers of its source; valid_time="event" is for '
            "tables of the lake."
        )
    if write is not None:
        if not isinstance(write, WriteStrategy):
            raise DefinitionError(
                f"write is {write!r}; give a write strategy, such as Merge() or Append()."
            )
        return write
    if history:
        return SCD2(ignore_changes_in)
    return Merge() if key else Append()
