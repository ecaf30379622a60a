"""XML documents: the elements of one name are the rows, read by Spark once the file is checked.

Spark looks for rows, not at documents: one without any row gives none, whatever else it holds. So
each file is parsed first, as CSV is read for its quotes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from xml.parsers import expat

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.sources.compressed import DAMAGED, decompressed, is_damage
from incremental_assets.sources.compressed_checks import require_whole_content
from incremental_assets.sources.path_columns import relative_path
from incremental_assets.sources.source_file import SourceFile, not_readable
from incremental_assets.sources.stored_files import DataFiles, named
from incremental_assets.storage import answering, open_file

_NAME = re.compile(r"[^\W\d][\w.-]*")
_AT_ONCE = 8
_MOST_TAGS = 10
_NO_DATA = ("xmlns", "xsi:")
"""How attributes begin that are about the document, and not its data."""
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

    Raises SourceError for a file that is not one well-formed document, that has a DOCTYPE, that
    has content and no row, or of which something would be lost.
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
    document = _Document(row_tag)
    try:
        with (
            answering(where),
            open_file(where) as stream,
        ):
            require_whole_content(stream, where)  # Python leaves out what follows a stream of bz2
            stream.seek(0)
            document.parser.ParseFile(decompressed(stream, where))
    except (*DAMAGED, expat.ExpatError, ValueError) as error:
        raise _refused(where, str(error)) from error
    except OSError as error:
        if is_damage(error):
            raise _refused(where, str(error)) from error
        raise not_readable(where, error) from error
    if document.is_other:
        why = f"it has no element {row_tag}, but {named(list(document.tags))}"
        raise _refused(where, why, ", or name the row_tag that it has")


class _Document:
    """What is asked of a document as it is parsed. Handlers raise ValueError for what is refused.

    Text costs a call for each piece of it, so it is looked at before the first row, and after
    comments, alone.
    """

    def __init__(self, row_tag: str) -> None:
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.CharacterDataHandler = self._text
        self.parser.StartDoctypeDeclHandler = _doctype
        self.parser.CommentHandler = self._comment
        self.parser.ProcessingInstructionHandler = self._comment
        self.tags: dict[str, None] = {}
        self._row_tag = row_tag
        self._has_row = self._has_content = self._is_after_comment = False

    @property
    def is_other(self) -> bool:
        """Whether it has no row, and is no empty root."""
        return self._has_content and not self._has_row

    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if len(attributes) > 1 and len({_local(name) for name in attributes}) < len(attributes):
            raise ValueError(
                f"line {self.parser.CurrentLineNumber}: {tag} has attributes that differ in their "
                "prefix alone, and one of them would be lost"
            )
        if self._is_after_comment:
            self._end()
        if self._has_row:
            return
        if _local(tag) == self._row_tag:
            self._has_row = True
            self.parser.CharacterDataHandler = None
            return
        own = [name for name in attributes if not name.startswith(_NO_DATA)]
        self._has_content |= bool(self.tags or own)
        if len(self.tags) < _MOST_TAGS:
            self.tags[tag] = None

    def _end(self, _tag: str = "") -> None:
        self._is_after_comment = False
        self.parser.EndElementHandler = None
        if self._has_row:
            self.parser.CharacterDataHandler = None

    def _comment(self, *_: str) -> None:
        self._is_after_comment = True
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text

    def _text(self, text: str) -> None:
        if text.isspace():
            return
        if self._is_after_comment:
            raise ValueError(
                f"line {self.parser.CurrentLineNumber}: a text follows a comment or processing "
                "instruction, and Spark loses one that goes on after it"
            )
        self._has_content = True


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def _doctype(*_: object) -> None:
    # Entities may be files of this machine, or more text than there is memory.
    raise ValueError("it has a DOCTYPE, which is not resolved")


def _refused(where: str, why: str, also: str = "") -> SourceError:
    return SourceError(
        f"{where} cannot be read as XML: {why}. Nothing was loaded; repair or remove the file"
        f"{also}, and run again."
    )
