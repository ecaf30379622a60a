"""How one field of a JSON payload is read as a typed column, strictly and without losing anything.

Each type says how to read a field of a `VARIANT`: the typed value, or null where the value cannot
be read. A field that is there, is not JSON null and still reads as null is *unreadable*.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

# ISO 8601 calendar dates and times, extended or basic, with an optional offset.
_TIMESTAMP = (
    r"^(\d{4})-?(\d{2})-?(\d{2})"
    r"(?:[Tt ](\d{2}):?(\d{2})(?::?(\d{2})(?:[.,](\d{1,9}))?)?)?"
    r"\s*(?:([Zz]|UTC)|([+-]\d{2})(?::?(\d{2}))?)?$"
)
_NUMBER = r"^\s*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?\s*$"
# What almost every feed writes; the cast reads it as it stands, without taking it apart.
_PLAIN_TIMESTAMP = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?(?:Z|[+-]\d{2}:\d{2})$"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldType:
    """Base: what a column of a contract holds. `required` means it may not be null."""

    required: bool = False

    @property
    def sql(self) -> str:
        """The Spark SQL name of the type."""
        raise NotImplementedError

    def parse(self, text: Column) -> Column:
        """The typed value of a field's text; null where it cannot be read."""
        raise NotImplementedError

    def read(self, payload: Column, field: str) -> Column:
        """The typed value of a field of a VARIANT object."""
        return self.parse(_text(payload, field))


@dataclass(frozen=True, slots=True)
class Text(FieldType):
    """A string; a JSON number or boolean is read as its text, an object or array is not."""

    @property
    def sql(self) -> str:
        return "string"

    def parse(self, text: Column) -> Column:
        return text

    def read(self, payload: Column, field: str) -> Column:
        value = F.try_variant_get(payload, _path(field), "variant")
        nested = F.schema_of_variant(value).rlike(r"^(OBJECT|ARRAY)")
        return F.when(~nested, _text(payload, field))


@dataclass(frozen=True, slots=True)
class Integer(FieldType):
    """A whole number of 32 bits (64 with `wide`); `2.0` and `"2"` are 2, `2.5` is unreadable."""

    wide: bool = False

    @property
    def sql(self) -> str:
        return "bigint" if self.wide else "int"

    def parse(self, text: Column) -> Column:
        number = _number(text, "decimal(38,15)")
        return F.when(number == F.floor(number), number.try_cast(self.sql))


@dataclass(frozen=True, slots=True)
class Decimal(FieldType):
    """An exact number; digits beyond `scale` are rounded half up, as SQL rounds."""

    precision: int = 18
    scale: int = 4

    @property
    def sql(self) -> str:
        return f"decimal({self.precision},{self.scale})"

    def parse(self, text: Column) -> Column:
        return _number(text, self.sql)


@dataclass(frozen=True, slots=True)
class Timestamp(FieldType):
    """An instant in microseconds: ISO 8601, UTC unless an offset is given.

    Only complete dates are read: Spark's own cast would take a bare year, or a bare time as a
    time of *today*.
    """

    @property
    def sql(self) -> str:
        return "timestamp"

    def parse(self, text: Column) -> Column:
        trimmed = F.trim(text)

        def group(index: int, default: str) -> Column:
            part = F.regexp_extract(trimmed, _TIMESTAMP, index)
            return F.when(part == "", default).otherwise(part)

        offset = F.when(group(9, "") == "", "Z").otherwise(
            F.concat(group(9, "+00"), F.lit(":"), group(10, "00"))
        )
        canonical = F.concat(
            group(1, ""), F.lit("-"), group(2, ""), F.lit("-"), group(3, ""), F.lit("T"),
            group(4, "00"), F.lit(":"), group(5, "00"), F.lit(":"), group(6, "00"), F.lit("."),
            F.substring(group(7, "0"), 1, 6), offset,
        )  # fmt: skip
        return F.when(text.rlike(_PLAIN_TIMESTAMP), text.try_cast("timestamp")).when(
            trimmed.rlike(_TIMESTAMP), canonical.try_cast("timestamp")
        )

    def read(self, payload: Column, field: str) -> Column:
        value = F.try_variant_get(payload, _path(field), "variant")
        return F.when(F.schema_of_variant(value) == "STRING", self.parse(_text(payload, field)))


def present(payload: Column, field: str) -> Column:
    """Whether the payload holds the field with a value other than JSON null."""
    value = F.try_variant_get(payload, _path(field), "variant")
    return F.coalesce(value.isNotNull() & ~F.is_variant_null(value), F.lit(False))


def _number(text: Column, kind: str) -> Column:
    """Text that is written as a number, cast; the cast alone would spend minutes on 1e-99999999."""
    return F.when(text.rlike(_NUMBER), text.try_cast(kind))


def _path(field: str) -> str:
    return f"$.{field}"


def _text(payload: Column, field: str) -> Column:
    return F.try_variant_get(payload, _path(field), "string")
