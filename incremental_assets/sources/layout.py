"""Where a feed's files lie below its folder, and of which landing day each of them is."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from incremental_assets.errors import DefinitionError

DAY_FOLDERS: Final = "%Y-%m-%d/"
COPYING: Final = "._COPYING_"
"""How a name ends while `hadoop fs -put` writes the file; Spark reads none of these."""
_DIGITS = {"%Y": 4, "%m": 2, "%d": 2, "%H": 2}
_DAY_OF = ("%Y", "%m", "%d")
_PART = re.compile(r"%.?|\*|[^%*]+")
_LITERAL = re.compile(r"[A-Za-z0-9_.=+@,~ -]+")
_Lister = Callable[[str], Collection[str]]


def is_hidden(name: str) -> bool:
    """Whether a file or folder of that name is no data; Hadoop copies under the name `COPYING`."""
    return name.startswith((".", "_")) or name.endswith(COPYING)


@dataclass(frozen=True, slots=True)
class Place:
    """A file or folder below a feed's folder, all of which is of one landing day."""

    path: str
    day: date | None
    """None where the files themselves show their days."""


@dataclass(frozen=True)
class Layout:
    """A pattern of paths such as `%Y/%m/%d/` or `sales_%Y%m%d*.csv`, with `/` between folders.

    `%Y`, `%m` and `%d` are the landing day, `%H` is an hour, and `*` is any text inside a name.
    Without a day, a file is of the UTC day on which it arrived: when it was last modified. A
    pattern that ends with `/` is of folders, of which all files below are data; any other is of
    files, or of folders that are named like one, as Spark writes them. Raises DefinitionError for
    a pattern that names a day in part, or more than one.
    """

    text: str = DAY_FOLDERS

    def __post_init__(self) -> None:
        segments = self._segments
        found = [name for segment in segments for name in segment.directives]
        wrong = [name for name in found if name not in _DIGITS]
        if wrong:
            raise self._error(f"{wrong[0]} is none of %Y, %m, %d and %H")
        for name in _DAY_OF if any(name in found for name in _DAY_OF) else ():
            if found.count(name) != 1:
                raise self._error(f"it has {name} {found.count(name)} times, and needs it once")
        if found.count("%H") > 1:
            raise self._error("it has %H more than once")
        if any(not segment.is_valid for segment in segments):
            raise self._error(
                "names are of letters, digits and any of `_.=+@,~-`, with a single slash between "
                "them, and do not begin with '.' or '_'"
            )

    @cached_property
    def _segments(self) -> tuple[_Segment, ...]:
        return tuple(map(_Segment.of, self.text.removesuffix("/").split("/")))

    def _error(self, why: str) -> DefinitionError:
        return DefinitionError(
            f"Layout {self.text!r}: {why}. A layout is a pattern of paths below the feed's folder, "
            "such as '%Y-%m-%d/', 'dt=%Y-%m-%d/%H/' or 'sales_%Y%m%d*.csv'."
        )

    @property
    def is_of_folders(self) -> bool:
        """Whether all that lies below a place is data of its day."""
        return self.text.endswith("/")

    @cached_property
    def is_by_arrival(self) -> bool:
        """Whether paths have no day."""
        return not any(name in self.text for name in _DAY_OF)

    @property
    def are_days_named(self) -> bool:
        """Whether the folder of a day is known by the day, without a listing."""
        varies = any(segment.varies for segment in self._segments)
        return self.is_of_folders and not varies and not self.is_by_arrival

    @property
    def folders_of_days(self) -> frozenset[str]:
        """The names of `name=value` folders that spell the landing day, which are no columns."""
        return frozenset(
            segment.text.partition("=")[0]
            for segment in self._segments
            if "=" in segment.text and segment.directives
        )

    def leads_to(self, path: str) -> bool:
        """Whether a path is a place, or a folder where one may be."""
        names = path.split("/")
        if len(names) > len(self._segments):
            return self.is_path(path)
        parts: dict[str, str] = {}
        for segment, name in zip(self._segments, names, strict=False):
            found = segment.pattern.fullmatch(name)
            if found is None:
                return False
            parts |= found.groupdict()
        return len(names) < len(self._segments) or self._is_place(parts)

    @property
    def example(self) -> str:
        """A path as a file of this layout has it."""
        path = "/".join(segment.example for segment in self._segments)
        return f"{path}/part-0" if self.is_of_folders else path

    def folder_in(self, path: str) -> str:
        """The folder that is the place of a path, in a layout of folders."""
        return "/".join(path.split("/")[: len(self._segments)])

    def day_of(self, path: str) -> date | None:
        """The landing day in a path below the feed's folder; None where it has none."""
        found = self._pattern.fullmatch(path)
        return _day(found.groupdict()) if found else None

    def is_path(self, path: str) -> bool:
        """Whether a file with this path below the feed's folder is the feed's."""
        if self.is_by_arrival:
            return self._pattern.fullmatch(path) is not None
        return self.day_of(path) is not None

    def places(
        self, names: _Lister, days: Collection[date] | None = None, passed: list[str] | None = None
    ) -> Iterator[Place]:
        """The places of these days, or of all days, in the order of their paths.

        `names` lists a folder below the feed's, "" for that itself. What is listed and is no place
        is added to `passed`.
        """
        return self._walk(names, None if days is None else set(days), passed, "", 0, {})

    def day_column(self, path: Column) -> Column:
        """The landing day of a row, by its file's path below the feed's folder."""
        if self.text == DAY_FOLDERS:
            return F.left(path, F.lit(len("2017-01-31"))).cast("date")
        year, month, day = (self._pattern.groupindex[name] for name in ("Y", "m", "d"))
        whole = F.lit(rf"(?s)\A(?:{self._expression(named=False)})\z")
        return F.regexp_replace(path, whole, F.lit(f"${year}-${month}-${day}")).cast("date")

    def _walk(
        self,
        names: _Lister,
        days: set[date] | None,
        passed: list[str] | None,
        folder: str,
        at: int,
        known: dict[str, str],
    ) -> Iterator[Place]:
        segment, is_last = self._segments[at], at == len(self._segments) - 1
        prefix = f"{folder}/" if folder else ""
        is_file = is_last and not self.is_of_folders
        if days is None or segment.varies or is_file:
            listed: Collection[str] = names(folder)
        else:
            listed = {segment.of_day(day) for day in days}
        for name in sorted(listed):
            found = segment.pattern.fullmatch(name)
            parts = known | found.groupdict() if found and not is_hidden(name) else None
            path = prefix + name
            if parts is None or (is_last and not self._is_place(parts)):
                if passed is not None and not is_hidden(name):
                    passed.append(path)
            elif passed is not None and segment.varies and not is_file and not names(path):
                passed.append(path)  # a file, where a folder is meant
            elif is_last:
                day = _day(parts)
                if day is None or days is None or day in days:
                    yield Place(path, day)
            else:
                left = None if days is None else {day for day in days if _may_be(day, parts)}
                if left is None or left:
                    yield from self._walk(names, left, passed, path, at + 1, parts)

    def _is_place(self, parts: dict[str, str]) -> bool:
        return self.is_by_arrival or _day(parts) is not None

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self._expression(named=True), re.DOTALL)

    def _expression(self, *, named: bool) -> str:
        """A regular expression that Python and Java read alike, but for the names of groups."""
        inside = "/".join(segment.expression(named=named) for segment in self._segments)
        return inside + ("/.+" if self.is_of_folders else "(?:/.+)?")


@dataclass(frozen=True)
class _Segment:
    """A pattern of one name."""

    text: str
    parts: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> _Segment:
        return cls(text, tuple(_PART.findall(text)))

    @property
    def is_valid(self) -> bool:
        literals = (part for part in self.parts if not (part.startswith("%") or part == "*"))
        return (
            bool(self.parts) and not is_hidden(self.text) and all(map(_LITERAL.fullmatch, literals))
        )

    @property
    def directives(self) -> list[str]:
        return [part for part in self.parts if part.startswith("%")]

    @property
    def varies(self) -> bool:
        """Whether the day alone does not give the name."""
        return "*" in self.parts or "%H" in self.parts

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.expression(named=True), re.DOTALL)

    def of_day(self, day: date) -> str:
        values = {"%Y": f"{day.year:04}", "%m": f"{day.month:02}", "%d": f"{day.day:02}"}
        return "".join(values.get(part, part) for part in self.parts)

    @property
    def example(self) -> str:
        return self.of_day(date(2017, 1, 5)).replace("%H", "06").replace("*", "a")

    def expression(self, *, named: bool) -> str:
        return "".join(_expression(part, named=named) for part in self.parts)


def _expression(part: str, *, named: bool) -> str:
    if part == "*":
        return "[^/]*"
    if part not in _DIGITS:
        return re.escape(part)
    digits = f"[0-9]{{{_DIGITS[part]}}}"
    return f"(?P<{part[1]}>{digits})" if named else f"({digits})"


def _day(parts: dict[str, str]) -> date | None:
    if "Y" not in parts:
        return None
    try:
        return date(int(parts["Y"]), int(parts["m"]), int(parts["d"]))
    except ValueError:
        return None


def _may_be(day: date, parts: dict[str, str]) -> bool:
    """Whether a path whose directives have these values so far may be of a day."""
    of_day = {"Y": day.year, "m": day.month, "d": day.day}
    return all(int(parts[name]) == value for name, value in of_day.items() if name in parts)
