"""XML documents: the elements of one name are the rows, read by Spark once the file is checked.

Spark looks for rows, not at documents: of one that is cut off it gives the rows before, and one
with another row tag gives none. So each file is parsed first, as CSV is read for its quotes.
"""

from __future__ import annotations

import codecs
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial, reduce
from typing import IO
from xml.parsers import expat

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.sources.compressed import DAMAGED, decompressed
from incremental_assets.sources.path_columns import relative_path
from incremental_assets.sources.source_file import SourceFile, not_readable
from incremental_assets.sources.stored_files import DataFiles, named
from incremental_assets.storage import open_file

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*(:[A-Za-z_][A-Za-z0-9_.-]*)?")
_AT_ONCE = 8
_MOST_TAGS = 10
_UTF_16 = {
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
    b"<\0": "UTF-16LE",
    b"\0<": "UTF-16BE",
}
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

    A prefix belongs to the name: `shop:order`. Attributes and children are fields of the row by
    their names, without a prefix; those that are there more than once are an array. Beside
    attributes, the text of an element is its field `_VALUE`. All values are texts.
    """

    row_tag: str

    def __post_init__(self) -> None:
        if not isinstance(self.row_tag, str) or not _NAME.fullmatch(self.row_tag):
            raise DefinitionError(
                f"Xml: row_tag is the name of the elements that are rows, not {self.row_tag!r}."
            )


def read_xml(session: SparkSession, data: DataFiles, form: Xml) -> DataFrame:
    """The rows of each document: `payload`, `_raw` (null) and `_file`.

    Raises SourceError for a file that is not one well-formed document, has a DOCTYPE, or has
    elements and no row among them.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        encodings = list(pool.map(partial(encoding_of, data.root, form.row_tag), data.files))
    groups: dict[str, set[str]] = {}
    for file, encoding in zip(data.files, encodings, strict=True):
        groups.setdefault(encoding, set()).add(file.path)
    parts = [_rows(session, data.only(paths), form, of) for of, paths in groups.items()]
    return reduce(DataFrame.union, parts)


def _rows(session: SparkSession, data: DataFiles, form: Xml, encoding: str) -> DataFrame:
    own = {"rowTag": form.row_tag, "encoding": encoding}
    rows = session.read.options(**_OPTIONS, **own).format("xml").load(data.spark_paths())
    nothing = F.lit(None).cast("string").alias("_raw")
    return rows.select("payload", nothing, relative_path(rows, data).alias("_file"))


def encoding_of(root: str, row_tag: str, file: SourceFile) -> str:
    """The encoding of a document, once it is known to be one, with rows or an empty root.

    Raises SourceError for any other file.
    """
    where = f"{root}/{file.path}"
    try:
        with open_file(where) as stream, decompressed(stream, where) as content:
            return _checked(content, row_tag)
    except (*DAMAGED, expat.ExpatError, ValueError) as error:
        raise _refused(where, error) from error
    except OSError as error:
        raise (not_readable if error.errno else _refused)(where, error) from error


def _checked(content: IO[bytes], row_tag: str) -> str:
    """The encoding of a document. Raises ExpatError where it is none, or ValueError."""
    declared: list[str] = []
    tags: dict[str, None] = {}
    parser = expat.ParserCreate()

    def doctype(*_: object) -> None:
        raise ValueError("it has a DOCTYPE, and what that declares is not resolved")

    def declaration(_version: str, encoding: str | None, _standalone: int) -> None:
        declared.extend([encoding] if encoding else [])

    def element(tag: str, _attributes: object) -> None:
        if tag == row_tag:
            parser.StartElementHandler = None  # the rest is parsed without a call for each
            tags.clear()
        elif len(tags) < _MOST_TAGS:
            tags[tag] = None

    parser.StartDoctypeDeclHandler = doctype
    parser.XmlDeclHandler = declaration
    parser.StartElementHandler = element
    start = content.read(len(codecs.BOM_UTF16))
    parser.Parse(start)
    parser.ParseFile(content)
    if len(tags) > 1:  # more than an empty root
        raise ValueError(f"it has no element {row_tag!r}, but {named(list(tags))}")
    return _UTF_16.get(start) or (declared[0] if declared else "UTF-8")


def _refused(where: str, error: Exception) -> SourceError:
    return SourceError(
        f"{where} cannot be read as XML: {error}. Nothing was loaded; repair or remove the file, "
        "or name the row_tag that it has, and run again."
    )
