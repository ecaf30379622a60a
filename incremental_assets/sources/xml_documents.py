"""XML documents: the elements of one name are the rows, read by Spark once the file is checked.

Spark looks for rows, not at documents: one without any row gives none, whatever else it holds. So
each file is parsed first, at the speed of the disk, as CSV is read for its quotes.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from xml.parsers import expat

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.sources.compressed import DAMAGED, decompressed
from incremental_assets.sources.path_columns import relative_path
from incremental_assets.sources.source_file import SourceFile, not_readable
from incremental_assets.sources.stored_files import DataFiles, named
from incremental_assets.storage import open_file

_NAME = re.compile(r"[^\W\d][\w.-]*")
_AT_ONCE = 8
_MOST_TAGS = 10
_OPTIONS = {
    "singleVariantColumn": "payload",
    "mode": "FAILFAST",
    "inferSchema": "false",
    "attributePrefix": "",
    "ignoreNamespace": "true",
}


@dataclass(frozen=True, slots=True)
class Xml:
    """XML in which each element named `row_tag` is a row, wherever it is in its document.

    Its attributes and children are the fields of the row, by their names without a prefix; what is
    there more than once is an array. The text of an element that has other fields is its field
    `_VALUE`. All values are texts, without the white space around them.
    """

    row_tag: str

    def __post_init__(self) -> None:
        if not isinstance(self.row_tag, str) or not _NAME.fullmatch(self.row_tag):
            raise DefinitionError(
                "Xml: row_tag is the name of the elements that are rows, without a prefix, not "
                f"{self.row_tag!r}."
            )


def read_xml(session: SparkSession, data: DataFiles, form: Xml) -> DataFrame:
    """The rows of each document: `payload`, `_raw` (null) and `_file`.

    Raises SourceError for a file that is not one well-formed document, that has a DOCTYPE, or that
    has elements and no row among them.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(partial(require_document, data.root, form.row_tag), data.files))
    reader = session.read.format("xml").options(rowTag=form.row_tag, **_OPTIONS)
    rows = reader.load(data.spark_paths())
    nothing = F.lit(None).cast("string").alias("_raw")
    return rows.select("payload", nothing, relative_path(rows, data).alias("_file"))


def require_document(root: str, row_tag: str, file: SourceFile) -> None:
    """Raise SourceError for a file that is no XML document with rows, or with an empty root."""
    where = f"{root}/{file.path}"
    parser = expat.ParserCreate()
    tags: dict[str, None] = {}

    def element(tag: str, _attributes: object) -> None:
        if tag.rpartition(":")[2] == row_tag:
            parser.StartElementHandler = None  # the rest is parsed without a call for each
            tags.clear()
        elif len(tags) < _MOST_TAGS:
            tags[tag] = None

    parser.StartElementHandler = element
    parser.StartDoctypeDeclHandler = _doctype
    try:
        with open_file(where) as stream, decompressed(stream, where) as content:
            parser.ParseFile(content)
    except (*DAMAGED, expat.ExpatError, ValueError) as error:
        raise _refused(where, str(error)) from error
    except OSError as error:
        if not error.errno:  # of damaged .bz2 and .zst
            raise _refused(where, str(error)) from error
        raise not_readable(where, error) from error
    if len(tags) > 1:
        raise _refused(where, f"it has no element {row_tag}, but {named(list(tags))}")


def _doctype(*_: object) -> None:
    # Entities may be files of this machine, or more text than there is memory.
    raise ValueError("it has a DOCTYPE, which is not resolved")


def _refused(where: str, why: str) -> SourceError:
    return SourceError(
        f"{where} cannot be read as XML: {why}. Nothing was loaded; repair or remove the file, or "
        "name the row_tag that it has, and run again."
    )
