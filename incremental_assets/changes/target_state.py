"""What a target holds already, as far as a detector needs it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from incremental_assets.changes.position import Position, state_of
from incremental_assets.delta.columns import BATCH, DELETED, HASH, ORDER, WITHIN, is_reserved
from incremental_assets.delta.delta_table import open_table, version_of
from incremental_assets.delta.quarantine import OutdatedRows, Quarantine
from incremental_assets.delta.read import plain_files, read_files
from incremental_assets.delta.scd2 import VALIDITY
from incremental_assets.delta.side_table import side_rows, side_table_of
from incremental_assets.delta.table_key import is_same_key, recorded_key, recorded_rows_of_key
from incremental_assets.errors import DefinitionError
from incremental_assets.frames import quoted
from incremental_assets.ledger.entry import Entry, FileEntry
from incremental_assets.ledger.table_history import TableHistory
from incremental_assets.writes.strategy import WriteStrategy

HISTORY = "history"  # the mode of a load that keeps versions
_BY_KEY = ("merge", HISTORY)  # older versions did not record the key with the target
QUARANTINE_FROM, START = "quarantine_from", "start"


@dataclass(frozen=True)
class TargetState:
    """A target at one moment, and what the ledger knows of it.

    `columns` are those of its table, `version` its Delta version (None before the first load).
    `last` is the last committed batch, `moments` the watermarks of all of them, and `files` what
    was read of a change log's files. `filled_by` is the key that the table is filled by, if it
    is recorded, `rows_of_key` what it holds of each, as well, and `start` the watermark that its
    first load began above.
    """

    name: str
    path: str
    write: WriteStrategy
    key: tuple[str, ...] = ()
    columns: Mapping[str, DataType] = field(default_factory=dict)
    version: int | None = None
    last: Entry | None = None
    moments: tuple[str, ...] = ()
    files: Mapping[str, FileEntry] = field(default_factory=dict)
    filled_by: tuple[str, ...] = ()
    rows_of_key: str = ""
    start: str = ""

    def with_ledger(self, last: Entry | None, history: TableHistory | None) -> TargetState:
        """With the last batch of the ledger and, where the history is given, all of them."""
        committed = history.committed if history else ()
        files = history.files_read if history else {}
        # Older versions recorded no start, or one that was named in a later call.
        start = committed[0].low if committed else state_of(last).get(START, "")
        moments = tuple(e.high for e in committed)
        return replace(self, last=last, moments=moments, files=files, start=start)

    def with_table(self) -> TargetState:
        """With the table as it is now."""
        table = open_table(self.path)
        if table is None:
            return replace(self, columns={}, version=None, filled_by=(), rows_of_key="")
        schema = StructType.fromJson(json.loads(table.schema().to_json()))
        return replace(
            self,
            columns={f.name: f.dataType for f in schema.fields},
            version=table.version(),
            filled_by=recorded_key(table),
            rows_of_key=recorded_rows_of_key(table),
        )

    @property
    def quarantine(self) -> Quarantine:
        """The rows that the gate quarantined."""
        return Quarantine(f"{self.path}/_quarantine", self.name, is_shared=True)

    def require_key(self) -> None:
        """Raise DefinitionError where the target is filled by another key, or by none."""
        by_none = self.last is not None and self.last.mode not in _BY_KEY
        if self.write.by_key and by_none and not self.filled_by:
            raise DefinitionError(
                f"{self.name}: the target {self.path} is filled by no key, so it may hold several "
                f"rows of one, and is now to be loaded by {list(self.key)}: they would stay. "
                "Nothing was loaded. Load it as before, or load by the key into a target, with "
                "watermarks, of its own."
            )
        if not self.filled_by or is_same_key(self.filled_by, self.key):
            return
        asked = list(self.key) or "none"
        raise DefinitionError(
            f"{self.name}: the target {self.path} is filled by the primary_key "
            f"{list(self.filled_by)}, and is now to be loaded by {asked}: a row would "
            "replace other rows, or be added to its own. Nothing was loaded. Load it "
            f"by {list(self.filled_by)}, or load by the other key into a target of its own."
        )

    def require_same_write(self) -> None:
        """Raise DefinitionError where the target holds other rows of a key than the write keeps.

        One that no load has filled holds none: a load that died may have created it.
        """
        has = self.rows_of_key or self._unrecorded_rows_of_key()
        if not has or has == self.write.rows_of_key:
            return
        if self.last is None and not DeltaTable(self.path).file_uris():
            return
        raise DefinitionError(
            f"{self.name}: the target {self.path} holds {has} of each key, and is now to be loaded "
            f"by {type(self.write).__name__}(), which keeps {self.write.rows_of_key}: it would "
            "become a mixture of both. Nothing was loaded. Load it as before, or load into a "
            "target, with watermarks, of its own."
        )

    def _unrecorded_rows_of_key(self) -> str:
        """What the table holds of each key as its columns and the ledger show it; "" for unknown.

        Older versions, and other programs, do not record it.
        """
        if not self.columns:
            return ""
        has_versions = set(VALIDITY) <= set(self.columns)
        if self.write.keeps_versions:
            return "" if has_versions else "rows without versions"
        if self.last is not None:
            return "versions" if self.last.mode == HISTORY else ""
        return "versions" if has_versions and BATCH in self.columns else ""

    def require_same_deleted_column(self, order: Sequence[str], positioned_by: str) -> None:
        """Raise DefinitionError where a column that marks deleted rows would come or go.

        What it marked before is in the target, or is marked as deleted, for ever.
        """
        is_other = state_of(self.last).get("column") != positioned_by  # which is refused as such
        is_same = (WITHIN in self.columns) == (WITHIN in order)
        if is_other or is_same or ORDER not in self.columns:
            return
        was, asked = ("without", "with") if WITHIN in order else ("with", "without")
        raise DefinitionError(
            f"{self.name}: the target {self.path} is filled {was} a column that marks rows as "
            f"deleted, and is now to be loaded {asked} one: rows that were loaded before would not "
            "be evaluated by it. Nothing was loaded. Load it as before, or load into a target, "
            "with watermarks, of its own."
        )

    def known_types(self) -> dict[str, DataType]:
        """The columns that rows of the source went to before, with their types."""
        own = self.write.validity
        return {n: t for n, t in self.columns.items() if n not in own and not is_reserved(n)}

    def position(self, first: Position) -> Position:
        """Where the last load left off; `first` before the first one."""
        if self.last is None:
            return first
        return Position.after(self.last.position, self.last.high, first, self.name)

    def read(self, session: SparkSession) -> DataFrame:
        """The rows of the table as it is now."""
        table = plain_files(self.path, version_of(self.path))
        return read_files(session, table, table.files)

    def superseded(self, session: SparkSession) -> DataFrame | None:
        """The rows of its side table: tombstones, superseded versions, conflicts; None without."""
        return side_rows(session, side_table_of(self.path))

    def known_rows(
        self, session: SparkSession, low: datetime | None, but_for: str = ""
    ) -> list[DataFrame]:
        """Hashes of rows that were loaded or quarantined, from a point in the order on.

        `but_for` is as for `quarantined`.
        """
        found = self.quarantined(session, but_for)
        near = F.lit(True) if low is None else F.col(ORDER).isNull() | (F.col(ORDER) >= F.lit(low))
        return found + [each.where(near).select(HASH) for each in self.loaded(session)]

    def loaded(self, session: SparkSession) -> list[DataFrame]:
        """The rows that were loaded, with their `_hash` and `_order`."""
        rows = [side_rows(session, self.path)] if HASH in self.columns else []
        rows += [self.superseded(session)] if self.write.loses_rows else []
        return [each for each in rows if each is not None]

    def quarantined(self, session: SparkSession, but_for: str = "") -> list[DataFrame]:
        """Hashes of the rows that were quarantined before, but for those with this reason."""
        other = ~F.array_contains("reasons", but_for) if but_for else F.lit(True)
        rows = self.quarantine_rows(session)
        return [] if rows is None else [rows.where(other).select(HASH)]

    def quarantine_rows(self, session: SparkSession) -> DataFrame | None:
        """The rows of this load in quarantine that count; None where there are none."""
        return self.quarantine.read(session, self.outdated)

    @property
    def outdated(self) -> Sequence[OutdatedRows]:
        """The rows in quarantine that no longer count."""
        before = self.quarantine_from
        return [OutdatedRows(None, 0, before)] if before else []

    @property
    def quarantine_from(self) -> int:
        """The batch from which on rows in quarantine count.

        A batch that loads rows of the quarantine puts all that stays there again.
        """
        position = json.loads(self.last.position or "{}") if self.last else {}
        return int(position.get(QUARANTINE_FROM, 0))

    def count_in_quarantine(self, reason: str) -> int:
        """How many rows are quarantined with this reason, counted without Spark."""
        return self.quarantine.count(self.outdated, reason)

    def without_superseded(
        self, session: SparkSession, rows: DataFrame, low: datetime | None, unordered: Column
    ) -> DataFrame:
        """The rows without those that a later row or delete of their key has replaced.

        Those are looked up from a point in the order on. `unordered` selects rows that any other of
        their key replaces; another row without an order is not yet judged, and stays.
        """
        if not self.write.keeps_latest or ORDER not in self.columns:
            return rows
        near = F.lit(True) if low is None else F.col(ORDER) >= F.lit(low)
        key = [quoted(name) for name in self.key]
        ordered = F.col(ORDER).isNotNull()
        later = self.read(session).where(near).selectExpr(*key, f"{ORDER} AS _later")
        lost = (ordered & (F.col(ORDER) < F.col("_later"))) | unordered
        rows = rows.join(later, list(self.key), "left")
        rows = rows.where(F.col("_later").isNull() | ~lost).drop("_later")
        deletes = self.superseded(session) if WITHIN in self.columns else None
        if deletes is None:
            return rows
        position = F.struct(ORDER, WITHIN)
        last = deletes.where(near & F.col(DELETED)).groupBy(*key)
        rows = rows.join(last.agg(F.max(position).alias("_marker")), list(self.key), "left")
        lost = (ordered | unordered) & (position <= F.col("_marker"))
        return rows.where(F.col("_marker").isNull() | ~lost).drop("_marker")
