"""Text as a typed value, strictly and the same in every feed: null where it does not fit the type.

Spark's casts alone would take a bare year for a date, a bare time for a time of *today*, and
round `2.5` to an integer.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NumericType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
    VariantType,
)

# ISO 8601 calendar dates and times, extended or basic, with an optional offset.
_TIMESTAMP = (
    r"^(\d{4})-?(\d{2})-?(\d{2})"
    r"(?:[Tt ](\d{2}):?(\d{2})(?::?(\d{2})(?:[.,](\d{1,9}))?)?)?"
    r"\s*(?:([Zz]|UTC)|([+-]\d{2})(?::?(\d{2}))?)?$"
)
# What almost every feed writes; the cast reads it as it is, without taking it apart.
_PLAIN_TIMESTAMP = (
    r"^\d{4}-\d{2}-\d{2}"
    r"(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?(?:Z|[+-]\d{2}:\d{2})?)?)?$"
)
# A date, or midnight in UTC on it.
_DATE = (
    r"^(\d{4})(-?)(\d{2})\2(\d{2})"
    r"(?:[T ]00:00(?::00(?:\.0{1,9})?)?(?:Z|UTC|[+-]00(?::?00)?)?)?$"
)
_NUMBER = r"^\s*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?\s*$"
_PADDED = r"^\s*[+-]?0[0-9]"
_WHOLE = r"^\s*[+-]?[0-9]+\s*$"
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")  # as Spark writes them
_TEXTS = (StringType, CharType, VarcharType)
_BROKEN = "\ue000broken"
LARGEST_DOUBLE = 2**53
"""Beyond this, two whole numbers may be one as doubles."""


def is_text(kind: DataType) -> bool:
    """Whether every text fits the type."""
    return isinstance(kind, _TEXTS)


def read_text(text: Column, kind: DataType) -> Column:
    """The text as a value of the type; null where it does not fit.

    Numbers: `2.0` and `2e0` are whole, `2.5` is not; a decimal is rounded half up to its scale.
    Dates and times: ISO 8601, UTC unless an offset is given; a date has no time of day, or
    midnight. Booleans: `true` and `false`. Binary: base64. Arrays, maps and structs: JSON of
    which every part fits.
    """
    for kinds, read in _READERS:
        if isinstance(kind, kinds):
            return read(text, kind)
    return text.try_cast(kind)


def read_whole(text: Column, kind: DataType) -> Column:
    """The same for a column whose type was inferred: `007` is no number, and not the same as 7."""
    read = read_text(text, kind)
    return F.when(~text.rlike(_PADDED), read) if isinstance(kind, NumericType) else read


def instant(text: Column) -> Column:
    """Text in ISO 8601 as a timestamp, UTC unless an offset is given; null where it is not.

    Only complete dates are read.
    """
    trimmed = F.trim(text)
    # Extended form; what is missing leaves `T::` behind, and two more replacements fill it in.
    extended = F.regexp_replace(trimmed, _TIMESTAMP, "$1-$2-$3T$4:$5:$6.$7|$8$9:$10")
    filled = F.regexp_replace(F.regexp_replace(extended, "T::", "T00:00:"), r":\.", ":00.")
    fraction = F.regexp_replace(filled, r"(\.\d{0,6})\d*\|", "$1|")
    zone = F.regexp_replace(fraction, r"\|([+-]\d{2}):$", "|$1:00")
    plain = F.regexp_replace(F.regexp_replace(zone, r"\|([Zz]|UTC)?:$", "Z"), r"\.?\|", "")
    return F.when(text.rlike(_PLAIN_TIMESTAMP), text.try_cast("timestamp_ltz")).when(
        trimmed.rlike(_TIMESTAMP), plain.try_cast("timestamp_ltz")
    )


def number(text: Column, kind: str) -> Column:
    """Text that is written as a number, cast to a numeric type; null where it is not.

    The cast alone would spend minutes on 1e-99999999.
    """
    return F.when(text.rlike(_NUMBER), text.try_cast(kind))


def whole_number(text: Column, kind: str) -> Column:
    """A whole number as the type, `2.0` and `2e0` among them; null where it is none.

    A fraction that a decimal of 15 digits after the point loses is found as long as a double has
    it.
    """
    written = number(text, "decimal(38,15)")
    exact = written.cast("double") == text.try_cast("double")
    return F.when(text.rlike(_WHOLE), text.try_cast(kind)).otherwise(
        F.when((written == F.floor(written)) & exact, written.try_cast(kind))
    )


def significant_digits(number: Column) -> Column:
    """The digits of a number's text without the zeros around them; of a power those before the E.

    A double keeps a number if both have the same ones.
    """
    digits = F.translate(F.substring_index(number, "E", 1), "-.", "")
    return F.regexp_replace(digits, "^0+|0+$", "")


def _as_it_is(text: Column, kind: DataType) -> Column:
    return text


def _whole(text: Column, kind: DataType) -> Column:
    return whole_number(text, kind.simpleString())


def _decimal(text: Column, kind: DataType) -> Column:
    if isinstance(kind, DecimalType) and kind.scale == 0:
        return _whole(text, kind)
    return number(text, kind.simpleString())


def _float(text: Column, kind: DataType) -> Column:
    return F.when(text.rlike(_NUMBER) | text.isin(*_NOT_FINITE), text.try_cast(kind))


def _boolean(text: Column, kind: DataType) -> Column:
    word = F.lower(F.trim(text))
    return F.when(word == "true", F.lit(True)).when(word == "false", F.lit(False))


def _binary(text: Column, kind: DataType) -> Column:
    return F.try_to_binary(text, F.lit("base64"))


def _variant(text: Column, kind: DataType) -> Column:
    return F.coalesce(F.try_parse_json(text), text.cast(kind))


def _date(text: Column, kind: DataType) -> Column:
    day = F.regexp_replace(text, _DATE, "$1-$3-$4")
    return F.when(text.rlike(_DATE), day.try_cast("date"))


def _time(text: Column, kind: DataType) -> Column:
    moment = instant(text)
    return moment if isinstance(kind, TimestampType) else moment.cast(kind)


def _nested(text: Column, kind: DataType) -> Column:
    """JSON as a nested value; Spark's reader reports where a part of it did not fit."""
    shape = StructType([StructField("v", kind), StructField(_BROKEN, StringType())])
    json = F.concat(F.lit('{"v":'), text, F.lit("}"))
    read = F.from_json(json, shape, {"columnNameOfCorruptRecord": _BROKEN})
    return F.when(read.getField(_BROKEN).isNull(), read.getField("v"))


_READERS: tuple[tuple[tuple[type[DataType], ...], Callable[[Column, DataType], Column]], ...] = (
    (_TEXTS, _as_it_is),
    ((ByteType, ShortType, IntegerType, LongType), _whole),
    ((DecimalType,), _decimal),
    ((FloatType, DoubleType), _float),
    ((BooleanType,), _boolean),
    ((TimestampType, TimestampNTZType), _time),
    ((DateType,), _date),
    ((BinaryType,), _binary),
    ((VariantType,), _variant),
    ((ArrayType, MapType, StructType), _nested),
)
