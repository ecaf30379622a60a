"""The sequence column of a flat change log, as a value that orders as the log does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from incremental_assets.errors import SourceError

SequenceKind = Literal["number", "wal_lsn", "cdc_lsn", "time"]
SEQUENCE_KINDS: tuple[SequenceKind, ...] = get_args(SequenceKind)
_TEXT = StringType()

# Qlik's and AWS DMS's AR_H_CHANGE_SEQ has 35 digits, GoldenGate's pos leading zeros.
_NUMBER = r"^[+-]?0*[0-9]{1,38}$"
_WAL_LSN = r"^[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}$"
# As Debezium writes them: SQL Server (8:8:4), Db2 (8:8:16); and as SQL Server writes a binary.
_CDC_LSN = (
    r"^(?:[0-9A-Fa-f]{8}:[0-9A-Fa-f]{8}:[0-9A-Fa-f]{4}(?:[0-9A-Fa-f]{12})?"
    r"|0[xX][0-9A-Fa-f]{20})$"
)
# Complete dates only: Spark's cast would take a bare year, or a bare time as a time of today.
_TIME = (
    r"^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?"
    r" ?(?:Z|UTC|[+-]\d{2}(?::?\d{2})?)?)?$"
)


def sequence_kind(column: Column, data_type: DataType = _TEXT) -> Column:
    """The kind of each value, as text; null for null and for what cannot be read.

    One aggregate over a batch, `collect_set(sequence_kind(…))`, gives `settle_sequence_kind` all
    that it needs. Raises SourceError where values of the type do not order a log (a floating-point
    number is equal to its neighbours beyond 2^53).
    """
    if not isinstance(data_type, StringType):
        return F.when(column.isNotNull(), F.lit(kind_of_type(data_type)))
    text = F.trim(column)
    return (
        F.when(text.rlike(_NUMBER), F.lit("number"))
        .when(text.rlike(_WAL_LSN), F.lit("wal_lsn"))
        .when(text.rlike(_CDC_LSN), F.lit("cdc_lsn"))
        .when(text.rlike(_TIME), F.lit("time"))
    )


def settle_sequence_kind(
    found: Iterable[str], remembered: SequenceKind | None, name: str
) -> SequenceKind | None:
    """The kind by which a column is read, from then on; None as long as no value was seen.

    `found` are the kinds of a batch, `remembered` is what earlier loads settled on: values of
    another kind cannot be read as it (`sequence_number` is null), so one of them stops no load.
    Raises SourceError where nothing was settled and there are two: values of different kinds have
    no order between them.
    """
    if remembered:
        return remembered
    settled = [kind for kind in SEQUENCE_KINDS if kind in set(found)]
    if len(settled) > 1:
        raise SourceError(
            f"Sequence column {name!r} holds values of kinds {settled}, which have no order "
            "between them: name a column that counts in one way, or land the rows of each way as a "
            "log of their own."
        )
    return settled[0] if settled else None


def sequence_number(column: Column, kind: SequenceKind, data_type: DataType = _TEXT) -> Column:
    """A value of the sequence column as something that orders; null where it cannot be read.

    - `number`: integers as bigint, so that later files may count on in a wider type; decimals
      without a fraction, and text of digits, as decimal(38,0): as text "10" comes before "9".
    - `wal_lsn`: Postgres' "16/B374D848" as decimal(38,0), high part * 2^32 + low part.
    - `cdc_lsn`: SQL Server's and Db2's log sequence numbers as decimal(38,0), from binary(10),
      "0x…" or "00000027:00000758:0005"; a number to compare, not to compute with.
    - `time`: timestamps, dates and ISO 8601 text as timestamp (microseconds, UTC unless an offset
      is given; text with nanoseconds is cut off).
    """
    if not isinstance(data_type, StringType):
        own = kind_of_type(data_type)
        if own != kind:
            raise SourceError(
                f"The sequence column is {data_type.simpleString()} and so of kind {own!r}, but is "
                f"to be read as {kind!r}: the source changed its type; rebuild the table from it."
            )
        if kind == "number":
            return column.cast("bigint" if isinstance(data_type, IntegralType) else "decimal(38,0)")
        return (
            column.cast("timestamp_ltz")
            if kind == "time"
            else cdc_lsn(F.concat(F.lit("0x"), F.hex(column)))
        )
    text = F.trim(column)
    if kind == "number":
        return F.when(text.rlike(_NUMBER), text.try_cast("decimal(38,0)"))
    if kind == "wal_lsn":
        high, low = (_hexadecimal(F.substring_index(text, "/", side)) for side in (1, -1))
        number = (high * F.lit(2**32) + low).cast("decimal(38,0)")
        return F.when(text.rlike(_WAL_LSN), number)
    if kind == "cdc_lsn":
        return cdc_lsn(text)
    return F.when(text.rlike(_TIME), text.try_cast("timestamp_ltz"))


def cdc_lsn(text: Column) -> Column:
    """The text of a `cdc_lsn` as decimal(38,0); null where it is none.

    The three parts are set side by side in decimal digits, each as wide as it can get, so that
    the numbers compare as the parts do.
    """
    digits = F.regexp_replace(text, "^0[xX]|:", "")
    last = F.substring(digits, 17, 16)
    parts = F.concat(
        _decimal_text(F.substring(digits, 1, 8)),
        F.lpad(_decimal_text(F.substring(digits, 9, 8)), 10, "0"),
        F.lpad(_decimal_text(last), F.when(F.length(last) == 4, 5).otherwise(20), F.lit("0")),
    )
    return F.when(text.rlike(_CDC_LSN), parts.try_cast("decimal(38,0)"))


def _decimal_text(hexadecimal: Column) -> Column:
    return F.conv(hexadecimal, 16, 10)


def _hexadecimal(text: Column) -> Column:
    return _decimal_text(text).try_cast("decimal(10,0)")


def is_ordered_as(data_type: DataType, kind: str | None) -> bool:
    """Whether values of a type can be read as a kind, or where that is None, as any: text can."""
    if isinstance(data_type, StringType):
        return True
    own = _kind_of_type(data_type)
    return own is not None and kind in (None, own)


def kind_of_type(data_type: DataType) -> SequenceKind:
    """The kind that a type other than text has; SourceError where it does not order a log."""
    kind = _kind_of_type(data_type)
    if kind is not None:
        return kind
    raise SourceError(
        f"A sequence column of type {data_type.simpleString()} does not order a log: name one that "
        "holds integers, decimals without a fraction, timestamps, dates or text."
    )


def _kind_of_type(data_type: DataType) -> SequenceKind | None:
    if isinstance(data_type, IntegralType):
        return "number"
    if isinstance(data_type, DecimalType) and data_type.scale == 0:
        return "number"
    if isinstance(data_type, TimestampType | TimestampNTZType | DateType):
        return "time"
    if isinstance(data_type, BinaryType):
        return "cdc_lsn"
    return None
