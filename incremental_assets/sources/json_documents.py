"""Files that are one JSON document each: an array of rows, or one object that is a row."""

from __future__ import annotations

import re
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.sources.lines import BLANK, only_value, without_mark
from incremental_assets.sources.path_columns import relative_path
from incremental_assets.sources.stored_files import DataFiles

_ARRAY = "array<string>"
_NO_DOCUMENT = " is not one JSON document: an array of rows, or one row"
_BROKEN = re.compile(rf"\[USER_RAISED_EXCEPTION\] (.*{_NO_DOCUMENT})", re.DOTALL)


def read_documents(session: SparkSession, data: DataFiles) -> DataFrame:
    """Each row of each document as `read_lines` gives a line: `text`, `payload`, `_file`.

    A file is read whole, by one task. One that is not exactly one JSON document fails the job:
    which rows it was to hold is unknown. An empty one has no rows.
    """
    files = session.read.text(data.spark_paths(), wholetext=True)
    text = F.trim(without_mark(F.col("value")), F.lit(BLANK))
    found = files.select(text.alias("text"), relative_path(files, data).alias("_file"))
    rows = found.where("text != ''").select(_rows(F.col("text"), F.col("_file")), "_file")
    rows = rows.select(F.coalesce("row", F.lit("null")).alias("text"), "_file")
    return rows.select("text", only_value(F.col("text")).alias("payload"), "_file")


def broken_document(error: BaseException) -> str:
    """What a failure of Spark says of a file that is no document; "" for any other failure."""
    found = _BROKEN.search(str(error))
    return found[1] if found else ""


def _rows(text: Column, file: Column) -> Column:
    """The texts of a document's rows, one by one as `row`."""
    is_array = text.startswith("[")
    wrong = F.raise_error(F.concat(file, F.lit(_NO_DOCUMENT)))
    rows = F.when(is_array, F.from_json(text, _ARRAY)).otherwise(F.array(text))
    return F.explode(F.when(_is_one_value(text), rows).otherwise(wrong)).alias("row")


def _is_one_value(text: Column) -> Column:
    """Whether a text is one JSON value and nothing else.

    In an array with a mark behind it, the value is followed by the mark, which no file can hold.
    """
    mark = uuid4().hex
    array = F.concat(F.lit("["), text, F.lit(f',"{mark}"]'))
    return F.is_valid_utf8(text) & F.coalesce(
        F.get_json_object(array, "$[1]") == mark, F.lit(False)
    )
