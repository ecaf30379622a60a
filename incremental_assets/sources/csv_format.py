"""How a CSV file is written: its signs, its encoding, and whether its first line names columns."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from incremental_assets.choices import did_you_mean
from incremental_assets.errors import DefinitionError

# The names of Python and Java. UTF-16 has line breaks of two bytes, which Spark finds only where it
# need not split a file.
_ENCODINGS: Final = {
    "utf-8": "UTF-8",
    "ascii": "US-ASCII",
    "iso8859-1": "ISO-8859-1",
    "iso8859-15": "ISO-8859-15",
    "cp1250": "windows-1250",
    "cp1251": "windows-1251",
    "cp1252": "windows-1252",
    "utf-16": "UTF-16",
    "utf-16-le": "UTF-16LE",
    "utf-16-be": "UTF-16BE",
}


_SIGN = re.compile(r"[!-/:-@\[-`{-~\t \x01-\x08\x1c-\x1f]")
_SEPARATORS: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}


@dataclass(frozen=True, slots=True)
class Csv:
    """CSV with these signs.

    By RFC 4180: commas, and a quote inside quotes is written twice. With another `escape`, such as
    a backslash, that stands before the quote. `encoding` is utf-8, latin-1, windows-1252 or one of
    their like. Without a `header` line the `columns` name the fields, in their order.
    """

    delimiter: str = ","
    quote: str = '"'
    escape: str = ""
    encoding: str = "utf-8"
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.escape == "":
            object.__setattr__(self, "escape", self.quote)
        for name in ("delimiter", "quote", "escape"):
            sign = getattr(self, name)
            if not isinstance(sign, str) or not _SIGN.fullmatch(sign):
                raise DefinitionError(
                    f"Csv: {name} is one ASCII character, no letter, digit or line break, not "
                    f"{sign!r}."
                )
        if self.delimiter in (self.quote, self.escape, "\\"):
            raise DefinitionError(f"Csv: the delimiter cannot be {self.delimiter!r}.")
        object.__setattr__(self, "encoding", _encoding(self.encoding))
        names = () if isinstance(self.columns, str) else tuple(self.columns)
        folded = [str(name).strip().lower() for name in names]
        if isinstance(self.columns, str) or not all(folded) or len(set(folded)) < len(folded):
            raise DefinitionError(
                f"Csv: columns are the names of all fields, each another one: {self.columns!r}."
            )
        object.__setattr__(self, "columns", tuple(map(str, names)))

    @property
    def has_header(self) -> bool:
        """Whether the first line of a file names its columns."""
        return not self.columns

    @property
    def separators(self) -> str:
        """What stands between fields, for a message."""
        return _SEPARATORS.get(self.delimiter, repr(self.delimiter))

    @property
    def is_split_by_line(self) -> bool:
        """Whether a line break is one byte."""
        return not self.encoding.startswith("utf-16")

    @property
    def is_of_java(self) -> bool:
        """Whether Java knows the encoding, and Spark of its own accord does not."""
        return self.encoding.startswith("cp") or self.encoding == "iso8859-15"

    @property
    def is_read_whole(self) -> bool:
        """Whether Spark reads a file in one piece, though it has no quotes.

        Of lines, it drops those that are blank to Java, which trims all signs up to the space. A
        record of empty fields may be such a line.
        """
        return not self.is_split_by_line or self.delimiter <= " "

    def dialect(self) -> Mapping[str, Any]:
        """The arguments of Python's `csv.reader`."""
        doubled = self.escape == self.quote
        return {
            "delimiter": self.delimiter,
            "quotechar": self.quote,
            "doublequote": doubled,
            "escapechar": None if doubled else self.escape,
        }

    def options(self) -> Mapping[str, str]:
        """The options of Spark's reader."""
        return {
            "sep": self.delimiter,
            "quote": self.quote,
            "escape": self.escape,
            "encoding": _ENCODINGS[self.encoding],
            "header": str(self.has_header).lower(),
        }


def _encoding(name: object) -> str:
    """The name by which Python knows an encoding. Raises DefinitionError for one not known here."""
    try:
        found = codecs.lookup(str(name)).name
    except LookupError:
        found = ""
    if found not in _ENCODINGS:
        raise DefinitionError(
            f"Csv: encoding is one of {', '.join(_ENCODINGS)}, not {name!r}"
            f"{did_you_mean(name, _ENCODINGS) or '.'}"
        )
    return found


RFC_4180: Final = Csv()
"""CSV as most programs write it."""
