"""CSV files with a header as a table: columns by name, with the types that every value fits."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import IntFlag
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from incremental_assets.frames import Frames, quoted
from incremental_assets.sources.csv_format import Csv
from incremental_assets.sources.csv_headers import csv_files
from incremental_assets.sources.path_columns import folder_columns, folder_values, relative_path
from incremental_assets.sources.rows import (
    OwnColumn,
    Reading,
    no_rows,
    require_names,
    with_facts,
)
from incremental_assets.sources.stored_files import DataFiles
from incremental_assets.typed_text import (
    LARGEST_DOUBLE,
    is_text,
    read_text,
    read_whole,
    significant_digits,
)

# Without a text for null of their own, Spark reads `""` as null too; no data holds this one.
_OPTIONS = {
    "nullValue": "\ue000null",
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": "_raw",
    "columnPruning": "false",  # with it, a record of the wrong length may pass
}
# Without it, Spark knows UTF, ASCII and Latin-1 alone.
_ENCODINGS_OF_JAVA = "spark.sql.legacy.javaCharsets"
# What a value that is not text begins with; most text is recognized by it alone.
_MAY_BE_TYPED = [ord(sign) for sign in "-.0123456789tTfFNI"]
_LETTERS = [ord(sign) for sign in "tTfF"]
_WHOLE = r"^-?(?:0|[1-9][0-9]{0,18})$"
_SURELY_64_BITS = 18
_SURELY_A_DOUBLE = 15
_FRACTION = r"^-?(?:(?:0|[1-9][0-9]*)\.[0-9]*|\.[0-9]+)$"
_POWER = r"^-?[1-9]\.[0-9]+E-?[0-9]{1,3}$"  # as Spark and Java write doubles; 1E5 may be a code
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_DAY = r"^\d{4}-\d{2}-\d{2}$"
_NANOSECONDS = r"[.,][0-9]{6}[0-9]*[1-9]"
_SHORTEST_MOMENT = len("20170102T1011")


class CsvKinds(IntFlag):
    """The kinds of values in a column, as bits.

    LARGE is a whole number that no double is. FINE comes with MOMENT, for one of which a timestamp,
    of microseconds, would lose digits.
    """

    NOTHING = 0
    WHOLE = 1
    NUMBER = 2
    BOOLEAN = 4
    MOMENT = 8
    DAY = 16
    TEXT = 32
    LARGE = 64
    FINE = 128


def csv_rows(frames: Frames, reading: Reading) -> DataFrame:
    """The records as rows; a record of the wrong length is in `_raw`.

    If the target knows all columns, the files are read when the caller asks for rows; if not, they
    are read once for both, and cached until the end of the batch. Raises SourceError for a file
    without a header or columns that a table cannot have.
    """
    records, names = _records(frames.session, reading)
    folders = folder_columns(reading, names)
    known = {
        name: _known_column(name, kind)
        for name in names
        if (kind := reading.known_type(name)) is not None
    }
    unknown = [name for name in names if name not in known]
    if not unknown:
        return with_facts(records, [*known.values(), *folders])
    cached = frames.cache(records)
    columns = known | _found_columns(cached, unknown, reading.as_written)
    return with_facts(cached, [*(columns[name] for name in names), *folders])


def csv_texts(session: SparkSession, reading: Reading) -> list[DataFrame]:
    """The records as rows whose columns are all text: a frame for each header that files have."""
    found = []
    for (header, is_whole, line_end), some in _by_header(reading).items():
        names = list(header)
        folders = folder_columns(reading, names)
        require_names([*names, *(column.name for column in folders)], reading.source)
        form = reading.csv
        records = _same_header(session, some, names, names, form, line_end, is_whole=is_whole)
        columns = [OwnColumn(name, F.col(quoted(name))) for name in names]
        found.append(with_facts(records, [*columns, *folders]))
    return found


def _by_header(reading: Reading) -> dict[tuple[tuple[str, ...], bool, str], DataFiles]:
    """The files by their headers, whether they are read whole, and the ends of their records.

    Without those of no line.
    """
    data = reading.data
    groups: dict[tuple[tuple[str, ...], bool, str], set[str]] = {}
    for file in csv_files(data.root, [file.path for file in data.files], reading.csv):
        if file.names:
            group = (file.names, file.is_whole, file.line_end)
            groups.setdefault(group, set()).add(file.path)
    return {group: data.only(paths) for group, paths in groups.items()}


def _records(session: SparkSession, reading: Reading) -> tuple[DataFrame, list[str]]:
    """The records as text, `_raw` and `_file`, and the names of their columns.

    Files are read together with those that have the same header, and put together by name.
    """
    groups = _by_header(reading)
    names = list(dict.fromkeys(name for header, _, _ in groups for name in header))
    folders = folder_values(reading.paths).keys() - reading.not_columns
    require_names([*names, *sorted(folders)], reading.source)
    frames = [
        _same_header(session, some, header, names, reading.csv, line_end, is_whole=is_whole)
        for (header, is_whole, line_end), some in groups.items()
    ]
    if not frames:
        return no_rows(session).select("_raw", "_file"), []
    return reduce(DataFrame.union, frames), names


def _same_header(
    session: SparkSession,
    data: DataFiles,
    header: Sequence[str],
    names: Sequence[str],
    form: Csv,
    line_end: str,
    *,
    is_whole: bool,
) -> DataFrame:
    """The records of files with one header, with the columns of all of them.

    A file without quotes has no line break in a record, and Spark may split it. Of one with quotes
    it takes each line end for a line feed, also inside of values, unless the line end is set.
    """
    text = StructType([StructField(name, StringType()) for name in (*header, "_raw")])
    whole = is_whole or form.is_read_whole
    options = {**_OPTIONS, **form.options(), "multiLine": str(whole).lower()}
    if line_end:
        options["lineSep"] = line_end
    if form.is_of_java:
        session.conf.set(_ENCODINGS_OF_JAVA, "true")
    records = session.read.schema(text).options(**options).csv(data.spark_paths())
    here = set(header)
    columns = [
        F.col(quoted(name)) if name in here else F.lit(None).cast("string").alias(name)
        for name in names
    ]
    return records.select(*columns, "_raw", relative_path(records, data).alias("_file"))


def _known_column(name: str, kind: DataType) -> OwnColumn:
    """A column as the target has it; an empty text is no value of any type but text."""
    text = F.col(quoted(name))
    if is_text(kind):
        return OwnColumn(name, text)
    return OwnColumn(name, read_whole(text, kind), written=text != "")


def _found_columns(
    records: DataFrame, names: Sequence[str], as_written: Collection[str]
) -> dict[str, OwnColumn]:
    """Columns with the types that all their values have: one aggregate.

    Those that are to be `as_written` are no doubles: 1.1 and 1.10 are two keys. Nor are they
    timestamps where two of them might be one.
    Every value becomes a row of its own, so that one expression checks all of them: one for each
    column took Spark longer to compile than to run.
    """
    texts = F.posexplode(F.array(*(F.col(quoted(name)) for name in names))).alias("at", "text")
    values = records.where(F.col("_raw").isNull()).select(texts)
    kinds = F.bit_or(_kind_of(F.col("text"))).alias("kinds")
    rows = values.where(F.col("text") != "").groupBy("at").agg(kinds).collect()
    found: dict[str, DataType] = {}
    for row in rows:
        name, of = names[row["at"]], CsvKinds(row["kinds"])
        kind = _type_for(of & ~CsvKinds.FINE)
        loses = isinstance(kind, DoubleType) or CsvKinds.FINE in of
        found[name] = StringType() if loses and name in as_written else kind
    return {
        name: OwnColumn(name, _read(F.col(quoted(name)), found.get(name, StringType())))
        for name in names
    }


def _read(text: Column, kind: DataType) -> Column:
    """The value of a text that is known to fit; only times have more forms than the cast reads."""
    return read_text(text, kind) if isinstance(kind, TimestampType) else text.try_cast(kind)


def _kind_of(text: Column) -> Column:
    """The kind of a value, as one bit; what is cheap to ask comes first.

    `007` is text: as a number it would lose its zeros. So are a fraction with more digits than a
    double keeps, and a power that Spark would not write. A cast is tried last, since one that
    fails takes a hundred times as long as a regular expression.
    """
    start, length = F.ascii(text), F.length(text)
    fits_a_double = text.try_cast("bigint").between(-LARGEST_DOUBLE, LARGEST_DOUBLE)
    large = (length > _SURELY_A_DOUBLE) & ~fits_a_double
    whole = F.when(large, CsvKinds.LARGE.value).otherwise(CsvKinds.WHOLE.value)
    fits = (length <= _SURELY_64_BITS) | text.try_cast("bigint").isNotNull()
    day = (length == len("2017-01-02")) & text.rlike(_DAY) & text.try_cast("date").isNotNull()
    moment = (length >= _SHORTEST_MOMENT) & read_text(text, TimestampType()).isNotNull()
    fine = (CsvKinds.MOMENT | CsvKinds.FINE).value
    double = text.try_cast("double").cast("string")
    keeps_digits = (length <= _SURELY_A_DOUBLE) | (
        significant_digits(text) == significant_digits(double)
    )
    number = (text.rlike(_FRACTION) & keeps_digits) | (text.rlike(_POWER) & (text == double))
    return (
        F.when(~start.isin(_MAY_BE_TYPED), CsvKinds.TEXT.value)
        .when(text.rlike(_WHOLE) & fits, whole)
        .when(
            start.isin(_LETTERS),
            F.when(F.lower(text).isin("true", "false"), CsvKinds.BOOLEAN.value).otherwise(
                CsvKinds.TEXT.value
            ),
        )
        .when(day, CsvKinds.DAY.value)
        .when(number | text.isin(*_NOT_FINITE), CsvKinds.NUMBER.value)
        .when(moment, F.when(text.rlike(_NANOSECONDS), fine).otherwise(CsvKinds.MOMENT.value))
        .otherwise(CsvKinds.TEXT.value)
    )


def _type_for(kinds: CsvKinds) -> DataType:
    if kinds and not kinds & ~(CsvKinds.WHOLE | CsvKinds.LARGE):
        return LongType()
    if kinds and not kinds & ~(CsvKinds.WHOLE | CsvKinds.NUMBER):
        return DoubleType()
    if kinds == CsvKinds.BOOLEAN:
        return BooleanType()
    if kinds == CsvKinds.DAY:
        return DateType()
    if kinds and not kinds & ~(CsvKinds.DAY | CsvKinds.MOMENT):
        return TimestampType()
    return StringType()
