"""What the path of a row's file gives: the path itself, and columns of its folders (`a=b`)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, LongType, StringType

from incremental_assets.locations import local_path
from incremental_assets.sources.rows import OwnColumn, Reading
from incremental_assets.sources.stored_files import DataFiles
from incremental_assets.typed_text import read_text

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_PLAIN_URI = re.compile(r"[A-Za-z0-9/_.,=~!$&'()*;:@-]*")
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def relative_path(rows: DataFrame, data: DataFiles) -> Column:
    """The path of a row's file below the root, as it was listed.

    Spark gives it as a URI: percent-encoded, but with `+` as it is. Decoding costs every row
    something, so it is done only where a path needs it.
    """
    local = local_path(data.root)
    root = str(local) if local is not None else data.root.split("://", 1)[1]
    uri = rows.metadataColumn("_metadata").getField("file_path")
    if not _PLAIN_URI.fullmatch(root + "".join(file.path for file in data.files)):
        uri = F.url_decode(F.replace(uri, F.lit("+"), F.lit("%2B")))
    return F.substr(uri, F.locate(root, uri) + F.lit(len(root) + 1))


def folder_values(paths: Sequence[str]) -> dict[str, dict[str, str | None]]:
    """The columns that folders name, each with its value per path, in the order of the folders.

    A path that does not name a column has None there, as one that names it without a value.
    """
    columns: dict[str, dict[str, str | None]] = {}
    for path in paths:
        for name, value in _named_in(path):
            columns.setdefault(name, {})[path] = value
    return columns


def by_folders(reading: Reading) -> list[Reading]:
    """The files in as many parts as there are sets of columns that their folders name.

    Read together, a row would have the columns of other files' folders.
    """
    named = folder_values(reading.paths).keys()
    groups: dict[frozenset[str], set[str]] = {}
    for file in reading.data.files:
        groups.setdefault(frozenset(dict(_named_in(file.path))), set()).add(file.path)
    return [
        replace(
            reading,
            data=reading.data.only(paths),
            not_columns=reading.not_columns | (named - names),
        )
        for names, paths in groups.items()
    ]


def folder_columns(reading: Reading, without: Collection[str]) -> list[OwnColumn]:
    """The columns that folders name (`a=b`), but for those that the rows have themselves.

    Their types follow from the folders of all files, so that they do not depend on which ones are
    read: what the target has, else a whole number or a day where all are written as one, else
    text.
    """
    here = [file.path for file in reading.data.files]
    there = {name.lower() for name in without}
    columns = []
    for name, by_path in folder_values(reading.paths).items():
        if name.lower() in there or name in reading.not_columns:
            continue
        known = reading.known_type(name)
        found = StringType() if reading.has_text_folders else _type_of(by_path.values())
        kind = found if known is None else known
        text = _value(by_path, name, here)
        written = None if known is None else text.isNotNull()
        columns.append(OwnColumn(name, read_text(text, kind), written))
    return columns


def folder_text(paths: Sequence[str], name: str) -> Column:
    """The text of one column that the folders of the paths name, by the row's `_file`."""
    return _value(folder_values(paths)[name], name, paths)


def _value(column: Mapping[str, str | None], name: str, paths: Sequence[str]) -> Column:
    """The text of a folder's column in a row, by the row's `_file`, which is one of the paths."""
    values = {column.get(path) for path in paths}
    if len(values) == 1:
        return F.lit(values.pop()).cast("string")
    file = F.col("_file")
    folders = F.left(file, F.length(file) - F.length(F.substring_index(file, "/", -1)))
    file = F.concat(F.lit("/"), folders)
    # As folders spell it: the name may be escaped, and so may the value.
    spelling = next(
        part.partition("=")[0]
        for path in paths
        if column.get(path) is not None
        for part in path.split("/")[:-1]
        if _unescaped(part.partition("=")[0]) == name
    )
    folder = f"/{spelling}="
    value = F.substring_index(F.substring_index(file, folder, -1), "/", 1)
    if any("%" in path for path in paths):
        plain = F.replace(value, F.lit("+"), F.lit("%2B"))
        value = F.coalesce(F.try_url_decode(plain), value)
    return F.when(file.contains(folder) & (value != NO_VALUE), value)


def _type_of(values: Iterable[str | None]) -> DataType:
    """`007` is text: as a number it would lose its zeros."""
    found = [value for value in values if value is not None]
    if found and all(_is_integer(value) for value in found):
        return LongType()
    if found and all(_is_day(value) for value in found):
        return DateType()
    return StringType()


def _named_in(path: str) -> Iterator[tuple[str, str | None]]:
    for part in path.split("/")[:-1]:
        name, equals, value = part.partition("=")
        if name and equals:
            yield _unescaped(name), None if value == NO_VALUE else _unescaped(value)


def _unescaped(text: str) -> str:
    """Text of a folder's name; Hive and Spark write what a file system may not hold as `%3A`."""
    return unquote(text)


def _is_integer(text: str) -> bool:
    return bool(_INTEGER.fullmatch(text)) and -(2**63) <= int(text) < 2**63


def _is_day(text: str) -> bool:
    try:
        return bool(_DAY.fullmatch(text)) and bool(date.fromisoformat(text))
    except ValueError:
        return False
