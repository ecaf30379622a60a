"""What the four loaders share: a session, a clock, and how a target is put together."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from typing import Any, ClassVar

from pyspark.sql import SparkSession

from incremental_assets.changes.detector import Detector
from incremental_assets.changes.watermark import Advance, Seen, furthest
from incremental_assets.engine.target import TargetTable
from incremental_assets.errors import DefinitionError
from incremental_assets.loaders.options import (
    ColumnNames,
    LoaderOptions,
    names_of,
    rules_of,
    table_path_of,
    write_of,
)
from incremental_assets.loaders.target import Target
from incremental_assets.settings import Settings
from incremental_assets.sources.source import Source

_LOG = logging.getLogger("incremental_assets")


@dataclass(eq=False)
class IncrementalLoader:
    """Base of the loaders.

    `spark` is any session, embedded or of Spark Connect; `clock` gives the time that a load fixes
    once; `log` takes one line of progress at a time (by default the logger `incremental_assets`,
    level INFO).

    For watermark logic of one's own, override `next_watermark`:

        class Cautious(TimestampBasedLoader):
            def next_watermark(self, before, seen):
                found = super().next_watermark(before, seen)
                late = found and found - timedelta(minutes=10)
                return max(filter(None, (before, late)), default=None)
    """

    spark: SparkSession
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    log: Callable[[str], None] = _LOG.info
    target: ClassVar[Callable[..., Target]]

    def next_watermark(self, before: Any, seen: Seen) -> Any:
        """The watermark after a load; by default the highest value ever seen.

        `before` is the one before (a datetime in UTC or an int, None at first), `seen` the lowest
        and highest value of the rows that were read, how many there were, and `now`. What is
        given may lie anywhere from `before` to the highest value: rows above it are read again
        and not loaded twice. Anything else is a WatermarkError, and nothing is loaded.
        """
        return furthest(before, seen)

    def _watermark(self, options: LoaderOptions) -> Advance | None:
        """The function that was given, or the hook where somebody has overridden it."""
        own = type(self).next_watermark is not IncrementalLoader.next_watermark
        return options.get("watermark") or (self.next_watermark if own else None)

    def _target(
        self,
        table_name: str,
        source: Source,
        target_path: str | Path,
        watermark_path: str | Path,
        changes: Detector,
        primary_key: ColumnNames | None,
        options: LoaderOptions,
        *,
        max_records: int | None = None,
        snapshot: str = "",
        at: datetime | None = None,
        start: str = "",
    ) -> Target:
        unknown = options.keys() - LoaderOptions.__optional_keys__
        if unknown:
            own = signature(type(self).target).parameters
            known = sorted({*own, *LoaderOptions.__optional_keys__} - {"self", "options"})
            near = get_close_matches(min(unknown), known, 1)
            raise DefinitionError(
                f"{type(self).__name__} has no option {', '.join(sorted(unknown))}; "
                f"{f'did you mean {near[0]}? The' if near else 'the'} options are "
                f"{', '.join(known)}."
            )
        key = names_of("primary_key", primary_key)
        table = TargetTable(
            table_name,
            source,
            table_path_of("target_path", target_path),
            table_path_of("watermark_path", watermark_path),
            changes,
            write_of(options, key),
            key,
            names_of("partition_by", options.get("partition_by")),
            rules_of(options.get("rules", ())),
            max_records,
            snapshot,
            at,
            start,
            cache=lambda: Settings.from_environment().cache,
        )
        return Target(table, self.spark, self.clock, self.log)
