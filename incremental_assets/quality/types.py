"""How one field of a JSON payload is read as a typed column, strictly and without losing anything.

Each type defines how a field of a `VARIANT` is read: the typed value, or null where it cannot
be read. A field that is there, is not JSON null and still reads as null is *unreadable*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F

from incremental_assets.typed_text import instant, number, whole_number

_BASIC_DATE = len("20170101")
OnTypeError = Literal["quarantine", "freeze", "discard"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldType:
    """Base: what a column of a contract holds.

    `required`: a row without a value is quarantined, or handled by the table's rule `…_not_null`.
    `on_type_error` is what becomes of a value that cannot be read as the type: its row goes to
    quarantine (`quarantine`), the whole day is held as well (`freeze`), or the value is left out
    and the row goes on without it (`discard`). `description` is what a reader should know of it.
    """

    required: bool = False
    on_type_error: OnTypeError = "quarantine"
    description: str = ""

    @property
    def sql(self) -> str:
        """The Spark SQL name of the type."""
        raise NotImplementedError

    def parse(self, text: Column) -> Column:
        """The typed value of a field's text; null where it cannot be read."""
        raise NotImplementedError

    def typed(self, kind: Column, text: Column) -> Column:
        """The typed value of a field whose JSON type is `kind` (as `schema_of_variant` gives it).

        It takes time to find a kind, so one is best asked for only where the text may be of two,
        in a branch of `when`: both sides of `and` and `or` are worked out for every row.
        """
        del kind
        return self.parse(text)


@dataclass(frozen=True, slots=True)
class Text(FieldType):
    """A string; a JSON number or boolean is read as its text, an object or array is not."""

    @property
    def sql(self) -> str:
        return "string"

    def parse(self, text: Column) -> Column:
        return text

    def typed(self, kind: Column, text: Column) -> Column:
        looks_nested = text.startswith("{") | text.startswith("[")
        is_text = F.when(~looks_nested, F.lit(True)).otherwise(~kind.rlike("^(OBJECT|ARRAY)"))
        return F.when(is_text, text)


@dataclass(frozen=True, slots=True)
class Integer(FieldType):
    """A whole number of 32 bits (64 with `wide`); `2.0` and `"2"` are 2, `2.5` is unreadable."""

    wide: bool = False

    @property
    def sql(self) -> str:
        return "bigint" if self.wide else "int"

    def parse(self, text: Column) -> Column:
        return whole_number(text, self.sql)


@dataclass(frozen=True, slots=True)
class Decimal(FieldType):
    """An exact number; digits beyond `scale` are rounded half up, as SQL rounds."""

    precision: int = 18
    scale: int = 4

    @property
    def sql(self) -> str:
        return f"decimal({self.precision},{self.scale})"

    def parse(self, text: Column) -> Column:
        return number(text, self.sql)


@dataclass(frozen=True, slots=True)
class Instant(FieldType):
    """An instant in microseconds: ISO 8601 with a complete date, UTC unless an offset is given."""

    @property
    def sql(self) -> str:
        return "timestamp"

    def parse(self, text: Column) -> Column:
        return instant(text)

    def typed(self, kind: Column, text: Column) -> Column:
        # A row of a typed source brings a timestamp or a date, whose text is ISO 8601 in UTC. Of
        # numbers, only one of eight digits looks like a date.
        is_text = F.when(F.length(text) != _BASIC_DATE, F.lit(True)).otherwise(kind == "STRING")
        return F.when(is_text, self.parse(text))
