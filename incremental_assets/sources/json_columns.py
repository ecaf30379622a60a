"""JSON lines as a table: the fields of all objects are the columns, with types that hold them.

A line is parsed to `VARIANT`, which is strict, and has the type of each value. Once every
kind that occurs in a field is known, a field of one plain kind is read by Spark's JSON reader,
which is twice as fast as casting out of the `VARIANT` value by value.
"""

from __future__ import annotations

import re
from enum import IntFlag

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from incremental_assets.errors import SourceError
from incremental_assets.frames import Frames
from incremental_assets.sources.lines import BLANK, LineReader, read_lines, unread
from incremental_assets.sources.path_columns import folder_columns
from incremental_assets.sources.rows import (
    OwnColumn,
    Reading,
    require_names,
    with_facts,
)
from incremental_assets.typed_text import LARGEST_DOUBLE, is_text, read_whole, significant_digits

MOST_FIELDS = 2_000
_BROKEN = "\ue000broken"  # no field of anybody's data is called that
_TEXT = StringType()
_WIDE = DecimalType(38, 0)
_SURELY_A_DOUBLE = 15


class JsonKinds(IntFlag):
    """The kinds of values in a field, as bits.

    WIDE is a whole number beyond 64 bits. LARGE is a number that no double is, and comes alone
    (a whole one of 64 bits) or with the number's own kind.
    """

    NOTHING = 0
    WHOLE = 1
    WIDE = 2
    FRACTION = 4
    FLOAT = 8
    BOOLEAN = 16
    TEXT = 32
    NESTED = 64
    LARGE = 128


_WHOLE = JsonKinds.WHOLE | JsonKinds.LARGE
_NUMBER = _WHOLE | JsonKinds.WIDE | JsonKinds.FRACTION | JsonKinds.FLOAT


def json_rows(frames: Frames, reading: Reading, lines_of: LineReader = read_lines) -> DataFrame:
    """The objects of the lines as rows; a line that is no object is in `_raw`.

    `lines_of` gives the lines, or the rows of documents, which are taken for such. The files are
    read once, when the columns are found out, and cached until the end of the batch. Raises
    SourceError if a table cannot have the columns.
    """
    is_object = F.ltrim(F.col("text"), F.lit(BLANK)).startswith("{")
    payload = F.when(is_object, F.col("payload")).alias("payload")
    parsed = lines_of(frames.session, reading.data).select("text", payload, "_file")
    lines = frames.cache(parsed)
    fields = fields_of(lines, reading.source)
    folders = folder_columns(reading, fields)
    require_names([*fields, *(c.name for c in folders)], reading.source)
    known = {name: reading.known_type(name) for name in fields}
    plain = {
        name: kind
        for name, kinds in fields.items()
        if (kind := _plain_type(kinds, known[name])) is not None
    }
    shape = StructType([StructField(name, kind) for name, kind in plain.items()])
    object_text = F.when(F.col("payload").isNotNull(), F.col("text"))
    read = F.from_json(object_text, shape, {"columnNameOfCorruptRecord": _BROKEN})
    # A text is used several times, so what it takes to get it is done before.
    others = {name: f"other{at}" for at, name in enumerate(fields) if name not in plain}
    texts = [_field(F.col("payload"), name, "string").alias(c) for name, c in others.items()]
    staged = lines.select(*([read.alias("plain")] if plain else []), *texts, "_file", unread())
    columns = [
        _column(name, kinds, F.col("plain").getField(name), known[name], plain[name])
        if name in plain
        else _column(name, kinds, F.col(others[name]), known[name])
        for name, kinds in fields.items()
    ]
    return with_facts(staged, [*columns, *folders])


def fields_of(lines: DataFrame, source: str) -> dict[str, JsonKinds]:
    """The fields of the objects by name, each with the kinds of its values: one aggregate."""
    fields = F.explode(F.col("payload").cast("map<string,variant>")).alias("name", "value")
    kinds = F.bit_or(_kind_of(F.col("value"))).alias("kinds")
    # In order, since the first so many of no order would take Spark several jobs.
    found = lines.select(fields).groupBy("name").agg(kinds).orderBy("name")
    rows = found.limit(MOST_FIELDS + 1).collect()
    if len(rows) > MOST_FIELDS:
        raise SourceError(
            f"{source} has objects with more than {MOST_FIELDS:,} different fields; such keys are "
            "data rather than names of columns. Put them into a nested object, or load the "
            "objects as they are, as a payload."
        )
    return {row["name"]: JsonKinds(row["kinds"]) for row in rows}


def _kind_of(value: Column) -> Column:
    """The kind of a value, as one bit."""
    name = F.schema_of_variant(value)
    digits = F.substring_index(F.substring(name, len("DECIMAL(") + 1, 5), ",", 1)
    whole = name.endswith(",0)") & (digits.try_cast("int") > 18)
    large = ~value.try_cast("bigint").between(-LARGEST_DOUBLE, LARGEST_DOUBLE)
    number = F.when(whole, JsonKinds.WIDE.value).otherwise(JsonKinds.FRACTION.value)
    keeps_digits = (digits.try_cast("int") <= _SURELY_A_DOUBLE) | (
        significant_digits(value.try_cast("string"))
        == significant_digits(value.try_cast("double").cast("string"))
    )
    number = F.when(keeps_digits, number).otherwise(number.bitwiseOR(JsonKinds.LARGE.value))
    return (
        F.when(name == "STRING", JsonKinds.TEXT.value)
        .when(
            name == "BIGINT", F.when(large, JsonKinds.LARGE.value).otherwise(JsonKinds.WHOLE.value)
        )
        .when(name.startswith("DECIMAL"), number)
        .when(name == "BOOLEAN", JsonKinds.BOOLEAN.value)
        .when(name == "VOID", JsonKinds.NOTHING.value)
        .when(name.isin("DOUBLE", "FLOAT"), JsonKinds.FLOAT.value)
        .otherwise(JsonKinds.NESTED.value)
    )


def _own_type(kinds: JsonKinds) -> DataType:
    """The type that holds all these kinds without asking a target."""
    if kinds and not kinds & ~_WHOLE:
        return LongType()
    if kinds and not kinds & ~(_WHOLE | JsonKinds.WIDE):
        return _WIDE
    if kinds and not kinds & ~(_NUMBER ^ JsonKinds.LARGE):
        return DoubleType()  # with a LARGE one two of them might be one: they stay texts
    return BooleanType() if kinds == JsonKinds.BOOLEAN else StringType()


def _plain_type(kinds: JsonKinds, known: DataType | None) -> DataType | None:
    """The type by which Spark's JSON reader reads the field; None if it would not be exact."""
    if not kinds:
        return None
    if isinstance(known, VariantType):
        return known
    if kinds == JsonKinds.TEXT:
        return StringType()
    own = _own_type(kinds)
    fits = known is None or known == own
    fits |= isinstance(known, DoubleType) and not kinds & ~_NUMBER
    fits |= known == _WIDE and not kinds & ~(_WHOLE | JsonKinds.WIDE)
    if not fits or is_text(own):
        return None
    return own if known is None else known


def column_of(
    name: str,
    kinds: JsonKinds,
    plain: DataType | None,
    known: DataType | None,
    objects: Column | None = None,
) -> OwnColumn:
    """A field as a column: read by Spark's JSON reader (`plain`), or from the objects."""
    if plain is not None:
        return _column(name, kinds, F.col("plain").getField(name), known, plain)
    objects = F.col("payload") if objects is None else objects
    if isinstance(known, VariantType):
        return OwnColumn(name, _field(objects, name, "variant"))
    return _column(name, kinds, _field(objects, name, "string"), known)


def _column(
    name: str,
    kinds: JsonKinds,
    read: Column,
    known: DataType | None,
    plain: DataType = _TEXT,
) -> OwnColumn:
    """A field as a column, of which every value is read as the plain type: as a text, if not."""
    kind = _own_type(kinds) if known is None else known
    if not kinds:
        return OwnColumn(name, F.lit(None).cast(kind))
    if plain == kind or is_text(kind):
        return OwnColumn(name, read)
    return OwnColumn(name, read_whole(read, kind), written=read.isNotNull())


def _field(objects: Column, name: str, kind: str) -> Column:
    """A field's value; as text, strings are as they are, and what is nested is JSON."""
    path = _path(name)
    if path is None:
        return objects.cast("map<string,variant>").getItem(name).try_cast(kind)
    return F.try_variant_get(objects, path, kind)


def _path(name: str) -> str | None:
    """The path of a field; None for a name that Spark's paths have no way to spell."""
    if not re.search(r"['?]", name):
        return f"$['{name}']"
    if not re.search(r'["?]', name):
        return f'$["{name}"]'
    return None if re.search(r"[.\[]", name) else f"$.{name}"
