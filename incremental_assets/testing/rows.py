"""Rows that should be equal: what is missing, extra or different, in text that can be read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any, Protocol

import polars as pl
from pyspark.sql import DataFrame

from incremental_assets.plurals import counted


class ArrowFrame(Protocol):
    """A frame that others can read: of polars, pandas, pyarrow or DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The frame as Arrow's PyCapsule interface hands it over."""


Rows = DataFrame | ArrowFrame | Iterable[Mapping[str, Any]]
"""A frame, also Spark's, or a dictionary for each row."""
_Row = Mapping[str, Any]
_MOST = 10  # rows shown of each kind


def assert_rows_equal(actual: Rows, expected: Rows, key: Sequence[str] = ()) -> None:
    """Fail unless both hold the same rows, in whatever order, each as often.

    Values are compared as Python compares them, so 1 equals 1.0 and Decimal("1.00"), but not "1";
    NaN equals NaN. Rows of one `key` that differ are shown with the columns that do. Raises
    AssertionError with the first rows that are missing, extra or different.
    """
    __tracebackhide__ = True
    found = difference(actual, expected, key)
    if found:
        raise AssertionError(found)


def difference(actual: Rows, expected: Rows, key: Sequence[str] = ()) -> str:
    """How the rows differ, for a person; "" where they do not."""
    have, want = _as_rows(actual), _as_rows(expected)
    if have and want and set(have[0]) != set(want[0]):
        return _columns_differ(set(have[0]), set(want[0]))
    extra, missing = _more(have, want), _more(want, have)
    if not extra and not missing:
        return ""
    pairs = _pairs(extra, missing, key)
    for one, other in pairs:
        extra.remove(one)
        missing.remove(other)
    counts = {"missing": len(missing), "extra": len(extra), "different": len(pairs)}
    summary = ", ".join(f"{number} {kind}" for kind, number in counts.items() if number)
    of = f"{counted(len(have), 'row')}; {counted(len(want), 'row')} expected"
    lines = [
        f"The rows differ: {summary} (of {of}).",
        *_listed("missing", map(_shown, missing)),
        *_listed("extra", map(_shown, extra)),
        *_listed("different", (_pair_shown(one, other, key) for one, other in pairs)),
    ]
    return "\n".join(lines)


def _as_rows(rows: Rows) -> list[_Row]:
    """A dictionary for each row; a column that one of them lacks is null there."""
    if isinstance(rows, DataFrame):
        return [row.asDict(recursive=True) for row in rows.collect()]
    if hasattr(rows, "__arrow_c_stream__"):
        return list(pl.DataFrame(rows).iter_rows(named=True))
    given = list(rows)
    names = dict.fromkeys(name for row in given for name in row)
    return [{name: row.get(name) for name in names} for row in given]


def _columns_differ(have: set[str], want: set[str]) -> str:
    apart = {"missing": sorted(want - have), "extra": sorted(have - want)}
    named = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in apart.items() if names)
    return f"The columns differ. {named}."


def _more(rows: Sequence[_Row], than: Sequence[_Row]) -> list[_Row]:
    """The rows that are there more often than in the others, in a settled order."""
    left = Counter(_hashable(row) for row in than)
    found = []
    for row in rows:
        if left[_hashable(row)] > 0:
            left[_hashable(row)] -= 1
        else:
            found.append(row)
    return sorted(found, key=_shown)


def _hashable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return frozenset((name, _hashable(each)) for name, each in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_hashable, value))
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def _pairs(
    extra: Sequence[_Row], missing: Sequence[_Row], key: Sequence[str]
) -> list[tuple[_Row, _Row]]:
    """The rows of one key that differ; of a key that is there more than once, none."""
    if not key:
        return []
    ours, theirs = _by_key(extra, key), _by_key(missing, key)
    both = [of for of in ours if len(ours[of]) == 1 and len(theirs.get(of, ())) == 1]
    return [(ours[of][0], theirs[of][0]) for of in both]


def _by_key(rows: Sequence[_Row], key: Sequence[str]) -> dict[Any, list[_Row]]:
    found: dict[Any, list[_Row]] = {}
    for row in rows:
        found.setdefault(_hashable([row.get(name) for name in key]), []).append(row)
    return found


def _listed(kind: str, texts: Iterable[str]) -> Iterator[str]:
    shown = list(texts)
    yield from (f"  {kind}: {text}" for text in shown[:_MOST])
    if len(shown) > _MOST:
        yield f"  {kind}: {len(shown) - _MOST} more"


def _shown(row: _Row) -> str:
    return ", ".join(f"{name}={_value(value)}" for name, value in sorted(row.items()))


def _pair_shown(actual: _Row, expected: _Row, key: Sequence[str]) -> str:
    apart = [n for n in sorted(actual) if _hashable(actual[n]) != _hashable(expected[n])]
    values = (f"{n} is {_value(actual[n])}, expected {_value(expected[n])}" for n in apart)
    return f"{_shown({name: actual[name] for name in key})}: {'; '.join(values)}"


def _value(value: Any) -> str:
    """A value as text that shows its type: text has quotes."""
    if isinstance(value, date):
        return value.isoformat()
    return "null" if value is None else repr(value)
