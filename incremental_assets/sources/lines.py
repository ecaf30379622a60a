"""Newline-delimited JSON: the one reader of lines, for the tables of the lake and the loaders.

A line is one JSON value and nothing else, with white space around it at most. Spark's parsers stop
after the first value, so that of two lines run together (`{"a":1}{"b":2}`), or of one with anything
behind it, the rest would be gone without a word. Such a line is not JSON here, nor is one with a
field twice, or one that is not UTF-8, whose bytes Spark would turn into question marks.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.decodable import decodable
from incremental_assets.sources.compressed_checks import require_whole
from incremental_assets.sources.path_columns import relative_path
from incremental_assets.sources.stored_files import DataFiles

BLANK = " \t\n\x0b\f\r"
LineReader = Callable[[SparkSession, DataFiles], DataFrame]
_BYTE_ORDER_MARK = "\ufeff"
_BEHIND_THE_MARK = len(_BYTE_ORDER_MARK.encode()) + 1
_ALL = 2**31 - 1


def read_lines(session: SparkSession, data: DataFiles) -> DataFrame:
    """Every line that is not blank: `text`, `payload` (null where it is not JSON), `_file`.

    A byte order mark is no part of a line. `text` may hold bytes that are not UTF-8. Raises
    SourceError for a compressed file that is not whole.
    """
    require_whole(data)
    lines = session.read.text(data.spark_paths())
    text = without_mark(F.col("value")).alias("text")
    found = lines.select(text, relative_path(lines, data).alias("_file"))
    found = found.where(F.ltrim("text", F.lit(BLANK)) != "")
    return found.select("text", only_value(F.col("text")).alias("payload"), "_file")


def without_mark(value: Column) -> Column:
    """A text without its byte order mark."""
    # As bytes: of text that is not UTF-8, Spark counts characters beyond its end.
    behind = F.substring(value.cast("binary"), _BEHIND_THE_MARK, _ALL).cast("string")
    return F.when(value.startswith(_BYTE_ORDER_MARK), behind).otherwise(value)


def unread() -> Column:
    """Of `read_lines`, the line where it is not JSON, as a table keeps it; else null."""
    return F.when(F.col("payload").isNull(), decodable(F.col("text"))).alias("_raw")


def only_value(text: Column) -> Column:
    """The JSON value that a text is, as `VARIANT`; null where it is not exactly one."""
    one = _ends_with_its_only_brace(text) | _is_followed_by_what_follows(text)
    return F.when(F.is_valid_utf8(text) & one, F.try_parse_json(text))


def _ends_with_its_only_brace(text: Column) -> Column:
    """Of a text that begins with an object: whether that is surely all of it.

    True of a row without nested objects, which most lines are, and costs a tenth of parsing it.
    """
    to_the_first = F.octet_length(F.substring_index(text, "}", 1))
    return text.startswith("{") & (to_the_first == F.octet_length(text) - 1)


def _is_followed_by_what_follows(text: Column) -> Column:
    """Whether a text that begins with a JSON value ends with it.

    In an array with a mark behind it, the value is followed by the mark. If there is anything
    behind the value, the parser meets that first: it stops, fails, or finds another value. The mark
    is a text as long as the line, so nothing inside the line can be taken for it.
    """
    mark = F.repeat(F.lit("x"), F.octet_length(text))
    array = F.concat(F.lit("["), text, F.lit(',"'), mark, F.lit('"]'))
    return F.coalesce(F.get_json_object(array, "$[1]") == mark, F.lit(False))
