"""The headers of CSV files, and what is checked in a file before Spark reads it."""

from __future__ import annotations

import codecs
import csv
import errno
import io
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import NamedTemporaryFile, gettempdir
from typing import IO

from incremental_assets.errors import SourceError
from incremental_assets.locations import local_path
from incremental_assets.plurals import counted
from incremental_assets.sources.compressed import DAMAGED, decompressed
from incremental_assets.sources.compressed_checks import require_whole_content
from incremental_assets.sources.csv_format import Csv
from incremental_assets.sources.source_file import not_readable
from incremental_assets.storage import answering, open_file

_AT_ONCE = 8
_DAMAGED = (*DAMAGED, csv.Error, ValueError)
_CHUNK = 1 << 20
_LONGEST_VALUE = 2**31 - 1
csv.field_size_limit(_LONGEST_VALUE)  # of the process; what a quote swallows may be all of a file
_AFTER = "x"  # a record that follows the last one, unless that swallows it
_ESCAPED = "xx"
_TRIMMED = "".join(map(chr, range(ord(" ") + 1)))
_SEPARATORS = ",;\t|"
_XML = re.compile(r"<[A-Za-z?!]")
_JSON = re.compile(r"""[{[]\s*(?:["'{}[\]]|$)""")
_VALUE = re.compile(
    r"[+-]?[0-9]+([.,][0-9]+)?([eE][+-]?[0-9]+)?|[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?|true|false",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class CsvFile:
    """A file: the names in its header, and whether Spark has to read it in one piece.

    That is so where it may hold a quote, and so a line break, or a value that looks like a line
    without one. `names` is empty for a file without a line. `line_end` is what ends the records of
    a file that is read whole, where that is no line feed.
    """

    path: str
    names: tuple[str, ...]
    is_whole: bool
    line_end: str = ""


@dataclass(frozen=True, slots=True)
class _OnDisk:
    """A file by its location, and where its bytes are: a copy, if that is an object store."""

    where: str
    path: str

    def __str__(self) -> str:
        return self.where


def csv_files(root: str, paths: Sequence[str], form: Csv) -> list[CsvFile]:
    """The files with their headers, or the names that stand for them, in the order of the paths.

    Files are read through, at the speed of the disk; those of an object store are fetched for it,
    since Spark itself notices none of this. Raises SourceError for a file without a header, with a
    quotation that never ends, that is not of its encoding or cannot be read.
    """
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda path: _csv_file(root, path, form), paths))


def _csv_file(root: str, path: str, form: Csv) -> CsvFile:
    where, line_end = f"{root}/{path}", ""
    try:
        with _on_disk(where) as file:
            names = _header(file, form)
            quotes = _quotes(file, form) if names else 0
            is_whole = quotes > 0 or (len(names) == 1 and _has_blank_value(file, form))
            if is_whole or (names and form.is_read_whole):
                found = _line_end(file, form)
                line_end = found if is_whole and found != "\n" else ""
            with open_file(file.path) as stream:  # Python leaves out what follows a stream of bz2
                require_whole_content(stream, where)
    except UnicodeError as error:
        raise SourceError(
            f"{where} is not {form.encoding.upper()} ({error}). Nothing was loaded; name the "
            "encoding that it has (Csv(encoding=…)), or convert it, for example with "
            "`iconv -f latin1 -t utf-8`, and run again."
        ) from error
    except _DAMAGED as error:
        raise _damaged(where, error) from error
    except OSError as error:  # of damaged .bz2 and .zst, too, as one that is none of the system
        raise (not_readable if error.errno else _damaged)(where, error) from error
    return CsvFile(path, names, is_whole, line_end)


def _damaged(where: str, error: Exception) -> SourceError:
    return SourceError(
        f"{where} cannot be read as CSV: {error}. Nothing was loaded; repair the file or remove "
        "it, and run again."
    )


def _header(file: _OnDisk, form: Csv) -> tuple[str, ...]:
    with _open(file) as stream, _text(stream, form) as text:
        first = next((record for record in csv.reader(text, **form.dialect()) if record), None)
    if first is None:
        return ()
    if first[0].startswith("\ufeff"):
        raise SourceError(
            f"{file} begins with a byte order mark, which {form.encoding.upper()} does not have. "
            "Nothing was loaded; name the encoding utf-16, and run again."
        )
    if form.columns:
        _require_records(file, first, form)
        return form.columns
    names = tuple(name.strip() for name in first)
    _require_header(file, names, form)
    # Spark's names for columns that have none, such as the index that pandas writes.
    names = tuple(name or f"_c{at}" for at, name in enumerate(names))
    _require_once(file, names)
    return names


def _require_records(file: _OnDisk, first: Sequence[str], form: Csv) -> None:
    """Raise SourceError if the first line is a header, or not as many fields as are named."""
    if [name.strip().lower() for name in first] == [name.lower() for name in form.columns]:
        raise SourceError(
            f"{file}: the first line is a header, and the feed names its columns, as for files "
            "without one. Nothing was loaded; leave the columns out, or remove the line."
        )
    if len(first) != len(form.columns):
        raise SourceError(
            f"{file}: the first line has {counted(len(first), 'field')} between "
            f"{form.delimiter!r}, and there are names for {len(form.columns)}: "
            f"{', '.join(form.columns)}. Nothing was loaded; correct the columns or the delimiter "
            "of the feed, or repair the file."
        )


def _require_header(file: _OnDisk, names: Sequence[str], form: Csv) -> None:
    start = ",".join(names)[:80]
    if not any(names):
        wrong = "is empty"
    elif any("\0" in name for name in names):
        wrong = "holds bytes of zero, as an archive that tar wrote does"
    elif _XML.match(names[0]):
        wrong = "looks like XML or HTML, not like the names of columns"
    elif _JSON.match(names[0]):
        wrong = "looks like JSON, not like the names of columns"
    elif _VALUE.fullmatch(names[0]):
        wrong = "looks like data, not like the names of columns"
    elif len(names) == 1 and any(s in names[0] for s in _SEPARATORS if s != form.delimiter):
        wrong = f"has no {form.separators} between the names"
    else:
        return
    raise SourceError(
        f"{file}: the first line ({start!r}) {wrong}. A CSV source needs a header line, names "
        f"with {form.separators} between them. Nothing was loaded; repair the file, or declare how "
        "it is written: Csv(delimiter=…, columns=…)."
    )


def _require_once(file: _OnDisk, names: Sequence[str]) -> None:
    """Raise SourceError for a header that has a name twice."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        start = ",".join(names)[:80]
        raise SourceError(
            f"{file}: the first line ({start!r}) has the name {twice[0]!r} twice. Nothing was "
            "loaded; repair the file, and run again."
        )


def _quotes(file: _OnDisk, form: Csv) -> int:
    """How many quotes a file holds, all of which is known to be of its encoding."""
    decoder = codecs.getincrementaldecoder(form.encoding)()
    quotes = 0
    with _open(file) as stream:
        while chunk := stream.read(_CHUNK):
            quotes += decoder.decode(chunk).count(form.quote)
    decoder.decode(b"", final=True)
    return quotes


def _has_blank_value(file: _OnDisk, form: Csv) -> bool:
    """Whether a line, which is one value, is blank to Java without being empty.

    Where it splits files by lines, Spark drops those that Java's trimming leaves nothing of.
    """
    with _open(file) as stream, _text(stream, form) as text:
        return any(not line.strip(_TRIMMED) and line.strip("\r\n") for line in text)


def _line_end(file: _OnDisk, form: Csv) -> str:
    """What ends the records; "" for a single one without an end.

    Raises SourceError if the last record ends inside a quotation, or line ends are of two kinds.
    Spark would take all that follows the quote, line after line, for one value, and lose those
    records. The number of quotes does not show it: a quote inside a plain value counts, too. And it
    takes the first line end for that of all records: another one would be part of their values.
    """
    record: list[str] = []
    ends: set[str] = set()

    def remembered(lines: Iterable[str]) -> Iterator[str]:
        for line in _without_escapes(lines, form):
            if not ends:
                ends.add(_end_of(line))
            record.append(line)
            yield line

    dialect = {**form.dialect(), "escapechar": None}
    with _open(file) as stream, _text(stream, form) as text:
        reader = csv.reader(remembered(text), **dialect)
        last: list[str] = []
        for _ in reader:
            ends.add(_end_of(record[-1]))
            last = list(record)
            record.clear()
    after = list(csv.reader([*last[:-1], last[-1].rstrip("\r\n") + "\n", _AFTER], **dialect))
    if after[-1] != [_AFTER]:
        line = reader.line_num - len(last) + 1
        raise SourceError(
            f"{file}: a quote in the record that begins on line {line} is never closed. "
            "Nothing was loaded; repair the file (it may be cut off) and run again."
        )
    if len(ends - {""}) > 1:
        raise SourceError(
            f"{file}: its lines end in more than one way ({', '.join(map(repr, sorted(ends)))}). "
            "Nothing was loaded; convert the file, for example with `dos2unix`, and run again."
        )
    return max(ends, default="")


def _without_escapes(lines: Iterable[str], form: Csv) -> Iterable[str]:
    """Lines whose quotes are all that ends or begins a quotation; the values are others.

    Outside of quotes Spark takes an escape for itself, and Python would take what follows it, a
    delimiter or a line end, for part of the value. Inside of them it counts before a quote or
    another escape alone, and those may go in any place: neither begins a value.
    """
    if form.escape == form.quote:
        return lines
    escape, quote = re.escape(form.escape), re.escape(form.quote)
    escaped = re.compile(f"{escape}(?:{escape}|{quote})")
    return (escaped.sub(_ESCAPED, line) for line in lines)


def _end_of(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]


def _text(stream: IO[bytes], form: Csv) -> io.TextIOWrapper:
    encoding = "utf-8-sig" if form.encoding == "utf-8" else form.encoding
    return io.TextIOWrapper(stream, encoding=encoding, newline="")


@contextmanager
def _on_disk(where: str) -> Iterator[_OnDisk]:
    """A file that is read several times: from an object store it comes once."""
    if local_path(where) is not None:
        yield _OnDisk(where, where)
        return
    with NamedTemporaryFile() as copy:
        try:
            with open_file(where) as stream, answering(where):
                shutil.copyfileobj(stream, copy, _CHUNK)
            copy.flush()
        except OSError as error:  # of a store without a number, so that it seems damaged
            if error.errno != errno.ENOSPC:
                raise not_readable(where, error) from error
            raise SourceError(
                f"{where} cannot be checked: {gettempdir()} has no room for a copy of it. Nothing "
                "was loaded; make room, or set TMPDIR to a folder that has some, and run again."
            ) from error
        yield _OnDisk(where, copy.name)


@contextmanager
def _open(file: _OnDisk) -> Iterator[IO[bytes]]:
    """The content of a file, without its compression."""
    with open_file(file.path) as stream:
        yield decompressed(stream, file.where)
