"""Fields of a change event that did not change, and so are not in it: which these are.

PostgreSQL logs no value of a large column (TOAST) that an update leaves as it is, unless the table
has REPLICA IDENTITY FULL. Debezium puts its `unavailable.value.placeholder` in its place, in a form
that fits the column's type. Other logs leave such fields out, or null.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from incremental_assets.delta.columns import DELETED, LACKS, OPERATION, PARTIAL
from incremental_assets.delta.earlier_values import as_partial, partial_type, with_earlier_values
from incremental_assets.delta.lookup import sent_if_few
from incremental_assets.errors import DefinitionError
from incremental_assets.frames import Frames, quoted
from incremental_assets.row_hash import HASH_VERSION, row_hash

Unchanged = Literal["marked", "absent", "null"]
"""Which fields of an update did not change: those that are marked, also absent, also null ones."""
NoEarlier = Literal["quarantine", "null"]
"""What happens to an event of which no earlier version has the value that did not change."""

NO_EARLIER = "no_earlier_version"
"""The reason of such an event."""
NOT_TRANSFORMED = "unchanged_field_in_transform"
"""The reason of an event with unchanged fields for a table with a transform."""
DEBEZIUM = "__debezium_unavailable_value"
IS_WHOLE = "_is_whole"
"""Whether a field that an event does not have is null: it is an insert, or was read whole."""
NOTHING = "CAST(array() AS ARRAY<STRING>)"
NO_EARLIER_FLAG = "_no_earlier"
_KNOWN, _LATEST = "_known_version", "_latest_known"
_HEX = "hex:"
# An insert has the whole row, so that a field which it lacks is null.
_WHOLE = ("insert", "i", "c", "r", "create", "read", "append", "load", "+i", "bootstrap-insert")


def require_unchanged(name: str, unchanged: str, no_earlier: str) -> None:
    """Raise DefinitionError for words that mean nothing."""
    for option, word, kinds in (
        ("unchanged", unchanged, get_args(Unchanged)),
        ("no_earlier", no_earlier, get_args(NoEarlier)),
    ):
        if word not in kinds:
            raise DefinitionError(f"{name}: {option} is {word!r}; use one of {list(kinds)}.")


def marks(placeholder: str) -> list[str]:
    """The texts of all values that a connector puts in the place of one that did not change.

    By type of the column: text (also JSON, numbers as text), bytes, arrays of texts, of numbers and
    of UUIDs, and a map.
    """
    raw = bytes.fromhex(placeholder[len(_HEX) :]) if placeholder.startswith(_HEX) else None
    raw = placeholder.encode() if raw is None else raw
    text = raw.decode("utf-8", "replace")
    named = uuid.UUID(bytes=hashlib.md5(raw, usedforsecurity=False).digest(), version=3)
    signed = [byte - 256 if byte > 127 else byte for byte in raw]
    values = ([text], signed, [str(named)], {text: text})
    return [text, base64.b64encode(raw).decode(), *(_compact(value) for value in values)]


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def marked(row: Column, placeholder: str) -> Column:
    """The names of the fields of a VARIANT object whose value is the placeholder."""
    texts = row.try_cast("map<string,string>")
    known = marks(placeholder)
    found = F.map_keys(F.map_filter(texts, lambda _, text: text.isin(known)))
    return F.coalesce(found, F.expr(NOTHING))


def without(row: Column, names: Column, before: Column | None = None) -> Column:
    """A VARIANT object without some fields; with those that an image `before` it has."""
    fields = F.map_filter(
        row.try_cast("map<string,variant>"), lambda name, _: ~F.array_contains(names, name)
    )
    if before is not None:
        fields = F.map_concat(fields, before)
    return F.when(F.size(names) > 0, F.to_variant_object(fields)).otherwise(row)


def values_of(image: Column, names: Column, placeholder: str) -> Column:
    """The fields of these names that an image has and knows, as a map; empty without one."""
    known = marks(placeholder)
    texts = image.try_cast("map<string,string>")
    nothing = F.expr("CAST(map() AS MAP<STRING,VARIANT>)")
    return F.coalesce(
        F.map_filter(
            image.try_cast("map<string,variant>"),
            lambda name, _: (
                F.array_contains(names, name)
                & ~F.coalesce(F.try_element_at(texts, name).isin(known), F.lit(False))
            ),
        ),
        nothing,
    )


def is_whole(word: Column) -> Column:
    """Whether an operation's word is one of a whole row."""
    return F.coalesce(F.lower(F.trim(word)).isin(*_WHOLE), F.lit(False))


@dataclass(frozen=True, slots=True)
class Lacking:
    """Events that lack fields which did not change: those `marked` in one of them, and how else."""

    marked: tuple[str, ...]
    unchanged: Unchanged
    no_earlier: NoEarlier

    def columns(self, columns: Sequence[str], key: Sequence[str]) -> list[str]:
        """Those of a table's columns that an event may lack."""
        some = columns if self.unchanged != "marked" else [n for n in columns if n in self.marked]
        return [name for name in some if name not in key]

    def lacked(self, columns: Sequence[str], has_field: Mapping[str, Column]) -> Column:
        """The names of those columns that an upsert does not have, for rows with `_lacks`.

        `has_field` is whether an event has a field for a column.
        """
        names, is_upsert = F.col(LACKS), F.col(OPERATION) == "upsert"
        if self.unchanged == "marked" or not columns:
            return names
        empty = {
            name: ~has_field[name] & ~F.col(IS_WHOLE)
            if self.unchanged == "absent"
            else F.col(quoted(name)).isNull()
            for name in columns
        }
        there = F.array(*(F.when(empty[n] & is_upsert, F.lit(n)) for n in columns))
        return F.array_union(names, F.array_except(there, F.array(F.lit(None).cast("string"))))

    def hashed(self, types: Mapping[str, DataType]) -> Column:
        """The hash of an event: one that lacks a column is not the one in which it is null.

        Of what the event itself has, so that a column which a table gets later changes nothing.
        """
        row, names = row_hash(types), F.col(LACKS)
        if self.unchanged == "null":
            return row
        if self.unchanged == "absent":
            null = (
                F.when(F.col(quoted(n)).isNull() & ~F.array_contains(LACKS, n), F.lit(n))
                for n in sorted(types)
            )
            names = F.array_except(F.array(*null), F.array(F.lit(None).cast("string")))
        text = F.concat(row, F.lit(" "), F.to_json(F.array_sort(names)))
        other = F.concat(F.lit(f"{HASH_VERSION}:"), F.substring(F.sha2(text, 256), 1, 32))
        return F.when(F.size(names) > 0, other).otherwise(row)

    @property
    def asks_for_earlier(self) -> bool:
        """Whether an event without an earlier version is put into quarantine.

        Where null says that a field did not change, that of a first version is simply null.
        """
        return self.no_earlier == "quarantine" and self.unchanged != "null"


def with_values_to_judge(
    frames: Frames,
    rows: DataFrame,
    known: DataFrame | None,
    key: Sequence[str],
    order: Sequence[str],
    columns: Sequence[str],
    *,
    latest_alone: bool,
    large: bool,
) -> DataFrame:
    """Events with the values that they lack, so that they can be judged; see `as_they_came`.

    That is the value of the event before, good or bad, or of the version that is `known`. Adds
    `_no_earlier: boolean`, whether there is none. Where of a key the `latest_alone` is known, an
    event that is older than it, and so will change little, is judged by its values. Of a `large`
    batch, the events of other keys are left apart.
    """
    kind = partial_type(rows.schema, order)
    rows = rows.withColumns({PARTIAL: as_partial(F.col(LACKS), kind), _KNOWN: F.lit(False)})
    rows = frames.cache(rows)
    keys = rows.where(F.size(LACKS) > 0).select(*map(quoted, key)).distinct()
    every, others = rows, None
    few = sent_if_few(frames, keys) if large else None
    if few is not None:
        keys, every = few, rows.join(few, list(key), "left_semi")
        others = rows.join(few, list(key), "left_anti")
    if known is not None:
        known = known.join(keys, list(key), "left_semi")
        there = {name: F.lit(None).cast(kind) for name in (PARTIAL,)}
        every = every.unionByName(
            known.withColumns({**there, _KNOWN: F.lit(True)}), allowMissingColumns=True
        )
    found = with_earlier_values(every, key, order, columns)
    missing = F.exists(F.coalesce(PARTIAL, F.array().cast(kind)), lambda e: ~e["known"])
    found = found.withColumn(NO_EARLIER_FLAG, missing)
    if known is not None and latest_alone:
        found = _by_the_latest(found, key, order, columns)
    found = found.where(~F.col(_KNOWN))
    if others is not None:
        found = found.unionByName(others.withColumn(NO_EARLIER_FLAG, F.lit(False)))
    return found.drop(PARTIAL, _KNOWN)


def _by_the_latest(
    rows: DataFrame, key: Sequence[str], order: Sequence[str], columns: Sequence[str]
) -> DataFrame:
    values = ", ".join(f"{quoted(name)} AS {quoted(name)}" for name in columns)
    at = ", ".join(map(quoted, order[:-1]))
    of_key = f"OVER (PARTITION BY {', '.join(map(quoted, key))})"
    is_row = f"{_KNOWN} AND NOT {DELETED}"
    rows = rows.withColumn(
        _LATEST,
        F.expr(
            f"max_by(struct(struct({at}) AS at, struct({values}) AS row), "
            f"CASE WHEN {is_row} THEN struct({at}) END) {of_key}"
        ),
    )
    is_older = F.expr(f"{NO_EARLIER_FLAG} AND struct({at}) < {_LATEST}.at")
    value = {
        name: F.when(
            is_older & F.array_contains(LACKS, name),
            F.coalesce(quoted(name), F.col(_LATEST)["row"][name]),
        ).otherwise(F.col(quoted(name)))
        for name in columns
    }
    judged = F.col(NO_EARLIER_FLAG) & ~F.coalesce(is_older, F.lit(False))
    return rows.withColumns({**value, NO_EARLIER_FLAG: judged}).drop(_LATEST)


def as_they_came(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The events, once they are judged, without the values that they lack."""
    lacks = {name: F.when(~F.array_contains(LACKS, name), F.col(quoted(name))) for name in columns}
    return rows.withColumns(lacks).drop(NO_EARLIER_FLAG)
