"""The shape of rows that a source gives: its own columns, and the facts of each row."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from incremental_assets.errors import SourceError
from incremental_assets.sources.csv_format import RFC_4180, Csv
from incremental_assets.sources.stored_files import DataFiles, named

FACTS = ("_file", "_raw", "_unreadable")


@dataclass(frozen=True, slots=True)
class Reading:
    """The request to a reader: some files of a source, and the types that the target has.

    `source` is its path, for messages, and `paths` those of all its files. `not_columns` are the
    names of folders `name=value` that are no columns; with `has_text_folders` the others are texts,
    whatever other files there are. With `has_one_schema` the files are known to have the same
    columns. The columns `as_written` identify rows: what is text in the source is no double.
    """

    source: str
    data: DataFiles
    paths: tuple[str, ...]
    known: Mapping[str, DataType]
    csv: Csv = RFC_4180
    not_columns: frozenset[str] = frozenset()
    has_text_folders: bool = False
    has_one_schema: bool = False
    as_written: frozenset[str] = frozenset()

    @property
    def merges(self) -> bool:
        """Whether a reader must look at each file for its columns."""
        return len(self.data.files) > 1 and not self.has_one_schema

    def known_type(self, name: str) -> DataType | None:
        """The type that the target has for a column; as in Spark, case is no difference."""
        if name in self.known:
            return self.known[name]
        same = (kind for other, kind in self.known.items() if other.lower() == name.lower())
        return next(same, None)


def holds(kind: DataType, *wanted: type[DataType]) -> bool:
    """Whether a value of this type is one of the wanted types, or has one inside."""
    if isinstance(kind, StructType):
        return any(holds(field.dataType, *wanted) for field in kind.fields)
    if isinstance(kind, MapType):
        return holds(kind.keyType, *wanted) or holds(kind.valueType, *wanted)
    if isinstance(kind, ArrayType):
        return holds(kind.elementType, *wanted)
    return isinstance(kind, wanted)


@dataclass(frozen=True, slots=True)
class OwnColumn:
    """A column of the source as it is read.

    `written` is whether the row has a value there, where that value may not fit the column's
    type and then reads as null; None where every value fits.
    """

    name: str
    value: Column
    written: Column | None = None


def with_facts(rows: DataFrame, columns: Sequence[OwnColumn]) -> DataFrame:
    """The columns, and `_file`, `_raw` and `_unreadable`; the rows have `_file` and `_raw`.

    Where `_raw` holds a text, the columns are null.
    """
    whole = F.col("_raw").isNull()
    values = [F.when(whole, c.value).alias(f"value{at}") for at, c in enumerate(columns)]
    strict = [(at, c.written) for at, c in enumerate(columns) if c.written is not None]
    written = [(whole & value).alias(f"written{at}") for at, value in strict]
    read = rows.select(*values, *written, "_file", "_raw")
    type_errors = [
        F.when(F.col(f"written{at}") & F.col(f"value{at}").isNull(), F.lit(columns[at].name))
        for at, _ in strict
    ]
    return read.select(
        *(F.col(f"value{at}").alias(c.name) for at, c in enumerate(columns)),
        "_file",
        "_raw",
        _unreadable(type_errors),
    )


def spelled(rows: DataFrame, known: Collection[str]) -> DataFrame:
    """The rows with each column in the spelling that the target knows it by.

    Spark takes `Amount` and `AMOUNT` for one column; Parquet's other readers, the hash of a row and
    the columns of a table do not, so a source that changes the case of a name changes nothing.
    """
    same = {name.lower(): name for name in known}
    renamed = {
        name: same[name.lower()]
        for name in rows.columns
        if name not in FACTS and same.get(name.lower(), name) != name
    }
    if not renamed:
        return rows
    names = F.create_map(*(F.lit(name) for pair in renamed.items() for name in pair))
    unreadable = F.transform("_unreadable", lambda n: F.coalesce(F.try_element_at(names, n), n))
    return rows.withColumnsRenamed(renamed).withColumn("_unreadable", unreadable)


def all_readable(rows: DataFrame, file: Column | None = None) -> DataFrame:
    """Rows that cannot be broken, from typed files, with the same facts."""
    path = (F.lit(None).cast("string") if file is None else file).alias("_file")
    raw = F.lit(None).cast("string").alias("_raw")
    return rows.select("*", path, raw, _unreadable([]))


def no_rows(session: SparkSession) -> DataFrame:
    """A source without files: its facts, no column of its own, no row."""
    return all_readable(session.range(0).select())


def require_names(names: Sequence[str], source: str) -> None:
    """Raise SourceError if a table cannot have all of these columns."""
    broken = [name for name in names if "\0" in name]
    if broken:
        raise SourceError(
            f"{source} has a column {broken[0]!r}, whose name has a NUL in it; no table can have "
            "such a column. Rename it in the source, and run again."
        )
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise SourceError(
                f"{source} has columns that differ only by case: {other!r} and {name!r}. A table "
                "has one of them; rename one in the source, and run again."
            )
    taken = sorted(set(FACTS) & seen.keys())
    if taken:
        raise SourceError(
            f"{source} has columns named {named(taken)}, which the load adds itself. Rename them "
            "in the source, and run again."
        )


def _unreadable(names: Sequence[Column]) -> Column:
    found = F.array_compact(F.array(*names)) if names else F.array()
    return found.cast("array<string>").alias("_unreadable")
