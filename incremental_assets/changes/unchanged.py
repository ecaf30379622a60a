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
from typing import Literal, get_args

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.delta.columns import LACKS
from incremental_assets.errors import DefinitionError

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


def placeholders(placeholder: str) -> list[str]:
    """The texts of all values that a connector puts in the place of one that did not change.

    By type of the column: text (also JSON, numbers as text), bytes, arrays of texts, of numbers
    (decimals as bytes, too), of UUIDs and of bytes, and a map.
    """
    raw = bytes.fromhex(placeholder[len(_HEX) :]) if placeholder.startswith(_HEX) else None
    raw = placeholder.encode() if raw is None else raw
    text = raw.decode("utf-8", "replace")
    named = uuid.UUID(bytes=hashlib.md5(raw, usedforsecurity=False).digest(), version=3)
    signed = [byte - 256 if byte > 127 else byte for byte in raw]
    in_base64 = base64.b64encode(raw).decode()
    decimals = [base64.b64encode(bytes([byte])).decode() for byte in raw]
    values = ([text], signed, [str(named)], {text: text}, [in_base64], decimals)
    return [text, in_base64, *(_compact(value) for value in values)]


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def marked(row: Column, placeholder: str) -> Column:
    """The names of the fields of a VARIANT object whose value is the placeholder."""
    texts = row.try_cast("map<string,string>")
    known = placeholders(placeholder)
    found = F.map_keys(F.map_filter(texts, lambda _, text: text.isin(known)))
    return F.coalesce(found, F.expr(NOTHING))


def marked_fields(rows: DataFrame) -> Column:
    """The fields that are marked as unchanged in some event: an aggregate."""
    if LACKS not in rows.columns:
        return F.lit(None)
    return F.array_distinct(F.flatten(F.collect_set(LACKS)))


def without(row: Column, names: Column, before: Column | None = None) -> Column:
    """A VARIANT object without some fields; with those that an image `before` it has."""
    fields = F.map_filter(
        row.try_cast("map<string,variant>"), lambda name, _: ~F.array_contains(names, name)
    )
    if before is not None:
        fields = F.map_concat(fields, before)
    return F.when(F.size(names) > 0, F.to_variant_object(fields)).otherwise(row)


def values_of(image: Column, names: Column, placeholder: str) -> Column:
    """The fields of these names that an image has a value of, as a map; empty without one.

    Null is none: an image before the change has null for what the log did not know.
    """
    known = placeholders(placeholder)
    texts = image.try_cast("map<string,string>")
    nothing = F.expr("CAST(map() AS MAP<STRING,VARIANT>)")
    return F.coalesce(
        F.map_filter(
            image.try_cast("map<string,variant>"),
            lambda name, value: (
                F.array_contains(names, name)
                & ~F.is_variant_null(value)
                & ~F.coalesce(F.try_element_at(texts, name).isin(known), F.lit(False))
            ),
        ),
        nothing,
    )


def is_whole(word: Column) -> Column:
    """Whether an operation's word is one of a whole row."""
    return F.coalesce(F.lower(F.trim(word)).isin(*_WHOLE), F.lit(False))
