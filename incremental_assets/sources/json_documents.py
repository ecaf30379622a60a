"""Files that are one JSON document each: an array of rows, or one object that is a row."""

from __future__ import annotations

import re
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.errors import SourceError
from incremental_assets.sources.compressed_checks import require_whole
from incremental_assets.sources.lines import BLANK, without_mark
from incremental_assets.sources.path_columns import relative_path
from incremental_assets.sources.stored_files import COMPRESSED, DataFiles

LARGEST = 64 * 2**20
"""Bytes: a task needs some ten times as much memory as its document has, and two run at once."""
_INFLATED = 8
_NO_DOCUMENT = " is not one JSON document (an array of rows, or one row) with each field once"
_BROKEN = re.compile(rf"\[USER_RAISED_EXCEPTION\] (.*?{re.escape(_NO_DOCUMENT)})", re.DOTALL)


def read_documents(session: SparkSession, data: DataFiles) -> DataFrame:
    """Each row of each document as `read_lines` gives a line: `text`, `payload`, `_file`.

    A file is read whole, by one task. One that is not exactly one JSON document, or has a field
    twice, fails the job: which rows it was to hold is unknown.
    An empty one has no rows. Raises SourceError for one that is too large to be read so, and for a
    compressed one that is not whole.
    """
    for file in data.files:
        if file.size * (_INFLATED if file.path.lower().endswith(COMPRESSED) else 1) > LARGEST:
            raise SourceError(
                f"{data.root}/{file.path} is a JSON document of {file.size / 2**20:,.0f} MiB, and "
                f"one that is read whole may have {LARGEST // 2**20} MiB, compressed an eighth of "
                "that. Nothing was loaded; write an object a line (`jq -c '.[]'`), which has no "
                'bound, and read it with format="json".'
            )
    require_whole(data)
    files = session.read.text(data.spark_paths(), wholetext=True)
    text = F.trim(without_mark(F.col("value")), F.lit(BLANK))
    found = files.select(text.alias("text"), relative_path(files, data).alias("_file"))
    found = found.where("text != ''").withColumn("document", F.try_parse_json("text"))
    rows = found.select(_rows(F.col("text"), F.col("_file")), "_file")
    row = F.coalesce("payload", F.parse_json(F.lit("null")))
    return rows.select(F.to_json(row).alias("text"), row.alias("payload"), "_file")


def broken_document(error: BaseException) -> str:
    """What a failure of Spark means for a file that is no document; "" for any other failure."""
    found = _BROKEN.search(str(error))
    return found[1] if found else ""


def _rows(text: Column, file: Column) -> Column:
    """The rows of a document, one by one as `payload`."""
    document = F.col("document")
    wrong = F.raise_error(F.concat(file, F.lit(_NO_DOCUMENT)))
    rows = F.when(text.startswith("["), document.cast("array<variant>")).otherwise(
        F.array(document)
    )
    is_one = document.isNotNull() & _is_one_value(text)
    return F.explode(F.when(is_one, rows).otherwise(wrong)).alias("payload")


def _is_one_value(text: Column) -> Column:
    """Whether a text is one JSON value and nothing else.

    In an array with a mark behind it, the value is followed by the mark, which no file can hold.
    """
    mark = uuid4().hex
    array = F.concat(F.lit("["), text, F.lit(f',"{mark}"]'))
    return F.is_valid_utf8(text) & F.coalesce(
        F.get_json_object(array, "$[1]") == mark, F.lit(False)
    )
