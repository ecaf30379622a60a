"""The request to a detector: which source, for which target, from where on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from incremental_assets.changes.position import state_of
from incremental_assets.changes.target_state import TargetState
from incremental_assets.delta.columns import OPERATION
from incremental_assets.delta.stage import NO_PARTITION
from incremental_assets.frames import quoted
from incremental_assets.quality.reasons import with_reasons
from incremental_assets.quality.rule import UNREADABLE, Rule
from incremental_assets.sources.source import FixedSource

REWOUND_FROM = "rewound_from"
"""Under this name a position keeps the watermark before a rewind."""


@dataclass(frozen=True)
class ReadRequest:
    """One load of a target: its source as it was fixed, and what the target holds already.

    `start` is the watermark that the first load began above, `at` the moment that a
    snapshot was taken (None: `now`), `snapshot` where the snapshot before it is stored. At most
    `max_records` rows are read.
    """

    name: str
    source: FixedSource
    state: TargetState
    now: datetime
    key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    max_records: int | None = None
    start: str = ""
    at: datetime | None = None
    snapshot: str = ""

    @property
    def floor(self) -> str:
        """Rows up to this watermark were in the target before, and it is unknown which ones.

        Where rows are merged, one that is read again replaces itself.
        """
        write = self.state.write
        return "" if write.by_key and not write.replaces_by_batch else self.start

    @property
    def rewound_from(self) -> str | None:
        """The watermark before a rewind, until all is read again; None without one."""
        last = self.state.last
        if last is None:
            return None
        before: str | None = state_of(last).get(REWOUND_FROM)
        return last.low if before is None and last.kind == "rewind" else before

    def is_all(self, rows: int) -> bool:
        """Whether so many rows are all that is new, and not just as many as a load may take."""
        return self.max_records is None or rows < self.max_records

    def with_reasons(
        self,
        rows: DataFrame,
        reasons: Sequence[Column],
        live: Column | None = None,
        *,
        keyed: bool = True,
        ordered_by: str = "",
    ) -> DataFrame:
        """The rows with `_reasons`: why each is quarantined; empty for a good one.

        A line that could not be taken apart, a value that does not fit its column, a null key, a
        text that names a partition and is empty, or Hive's word for null (Delta's log keeps both as
        null), the `reasons` (text or null), and row rules with severity `quarantine` that a `live`
        row breaks. Of the others a delete needs its key and the column that it is `ordered_by`;
        whether their other values fit does not matter.
        """
        key = self.key if keyed else ()
        keys = [F.when(F.col(quoted(n)).isNull(), F.lit(f"{n}_null")) for n in key]
        unread = F.col("_raw").isNotNull()
        texts = {f.name for f in rows.schema.fields if isinstance(f.dataType, StringType)}
        empty = [
            F.when(
                (F.lit(True) if live is None else live) & F.col(n).isin("", NO_PARTITION),
                F.lit(f"{n}_empty"),
            )
            for n in self.partition_by
            if n in texts
        ]
        unreadable = None if live is None else self._misfits(live, ordered_by)
        return with_reasons(rows, self.rules, [*reasons, *keys, *empty], unread, live, unreadable)

    def _misfits(self, live: Column, ordered_by: str) -> Column:
        """The names of the columns whose value has to fit and does not, for each row."""
        every = F.col(UNREADABLE)
        needed = F.array(*map(F.lit, dict.fromkeys(filter(None, (*self.key, ordered_by)))))
        return (
            F.when(live | F.col(OPERATION).isNull(), every)
            .when(F.col(OPERATION) == "delete", F.array_intersect(every, needed))
            .otherwise(F.array().cast("array<string>"))
        )
