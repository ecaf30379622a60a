"""Lines that are not text, stored as text that every reader of a Delta table can decode.

A picture, an archive or a file in UTF-16 that lands among JSON lines is bytes, and Spark would
write them into a column of text as they are. Readers that check their text (delta-rs, polars) then
refuse the whole file. So a line that is not UTF-8 is stored as `base64:` and its bytes in base64,
and so is one that begins with `base64:` itself: the exact line can be restored from either.
"""

from __future__ import annotations

import base64
import binascii

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

UNDECODABLE = "base64:"


def decodable(line: Column) -> Column:
    """A line as it is stored: as it landed where that is text, else its bytes in base64."""
    return F.when(F.is_valid_utf8(line) & ~line.startswith(UNDECODABLE), line).otherwise(
        _encoded(line)
    )


def decodable_stored(stored: Column) -> Column:
    """The stored text of a line, decodable also where an older version wrote bytes."""
    return F.when(F.is_valid_utf8(stored), stored).otherwise(_encoded(stored))


def landed_bytes(stored: str) -> bytes:
    """The bytes of a line as it landed, from its stored text."""
    if stored.startswith(UNDECODABLE):
        encoded = stored.removeprefix(UNDECODABLE).replace("\r\n", "")  # Spark's, of a long line
        try:
            return base64.b64decode(encoded, validate=True)
        except binascii.Error:
            pass  # a line of that beginning, from before such lines were encoded
    return stored.encode()


def decodable_rows(rows: pa.Table) -> pa.Table:
    """The rows with text that is UTF-8 in all columns of text, as `decodable_stored` makes it.

    They are the very same table where all text was UTF-8.
    """
    for at, field in enumerate(rows.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            try:
                rows[at].validate(full=True)
            except pa.ArrowInvalid:
                bytes_of = rows[at].cast(pa.large_binary()).to_pylist()
                texts = pa.array(map(_decodable, bytes_of), field.type)
                rows = rows.set_column(at, field, texts)
    return rows


def _decodable(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return UNDECODABLE + base64.b64encode(value).decode()


def _encoded(line: Column) -> Column:
    return F.concat(F.lit(UNDECODABLE), F.base64(line.cast("binary")))
