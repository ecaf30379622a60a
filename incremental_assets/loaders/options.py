"""The options that all loaders share, and the checks of what a loader is given."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, SupportsIndex, TypedDict
from warnings import warn

from incremental_assets.changes.watermark import Advance
from incremental_assets.errors import DefinitionError
from incremental_assets.locations import location, table_location
from incremental_assets.quality.rules import Rule
from incremental_assets.sources.csv_format import Csv
from incremental_assets.sources.source import Source
from incremental_assets.sources.stored import Stored
from incremental_assets.sources.stored_files import Format
from incremental_assets.writes import SCD2, Append, Merge, WriteStrategy

ColumnNames = str | Iterable[str]
RuleOrRules = Rule | Iterable["RuleOrRules"]


class LoaderOptions(TypedDict, total=False):
    """The options of every loader, all by keyword; a loader's own ones are in its signature.

    `source_format` is "delta", "parquet", "orc", "avro", "json" (lines), "json_document" (an array
    of rows) or "csv" (with a header), by default that of the files' names, or `Csv(…)` for
    a CSV of other signs. `partition_by` names the columns that a new target is partitioned
    by. `rules` are judged before anything is published: rows that `quarantine(…)` rejects go to
    `<target_path>/_quarantine`, a rule of `fail(…)` that fails is a GateError. `write` is the write
    strategy, by default `Merge()` with a primary key and `Append()` without; `SCD2(…)` keeps every
    version with `valid_from`, `valid_to` and `is_current`. `watermark` is a function like
    `IncrementalLoader.next_watermark`, by default the highest value ever seen. `history` and
    `ignore_changes_in` are deprecated: `write=SCD2(ignore_changes_in=(…))`.

    Options that do not go together, and those that no loader has, are a DefinitionError.
    """

    source_format: Format | Csv | None
    partition_by: ColumnNames
    rules: RuleOrRules
    write: WriteStrategy | None
    watermark: Advance | None
    history: bool
    ignore_changes_in: ColumnNames


def path_of(name: str, value: str | Path) -> str:
    """A path that was given, checked: absolute, or the URI of an object store."""
    if not isinstance(value, str | Path):
        kind = type(value).__name__
        raise DefinitionError(
            f"{name} is of the type {kind}; expected a path or the URI of an object store, or, "
            "for what is read, a Source."
        )
    if not str(value).strip():
        raise DefinitionError(f"{name} is empty; expected a path or the URI of an object store.")
    return location(name, str(value))


def table_path_of(name: str, value: str | Path) -> str:
    """The same for a Delta table."""
    return table_location(name, path_of(name, value))


def source_of(name: str, value: str | Path | Source, options: LoaderOptions) -> Source:
    """A source that was given, as it is or by its path and format.

    Raises DefinitionError for one below the landing root, which a loader has not, and for a format
    that nobody would look at.
    """
    kind = options.get("source_format")
    if not isinstance(value, Source):
        return Stored(path_of(name, value), kind)
    if value.is_landed:
        raise DefinitionError(
            f"{name} is {value.path!r} below a landing root, and a loader has none; give an "
            "absolute path or a URI."
        )
    if kind is not None:
        raise DefinitionError(
            f"{name} is a source, and source_format={kind!r} is for a path; leave it out, or give "
            "the format to the source."
        )
    return value


def names_of(name: str, value: ColumnNames | None) -> tuple[str, ...]:
    """One column or several, each once. Raises DefinitionError, with the option's name."""
    several = (value,) if isinstance(value, str) else () if value is None else value
    found = tuple(several) if isinstance(several, Iterable) else (None,)
    if not all(isinstance(each, str) and each for each in found):
        raise DefinitionError(
            f"{name} is {value!r}; expected the name of a column, or several in a list."
        )
    return tuple(dict.fromkeys(map(str, found)))


def moment_of(name: str, value: datetime | date | str | None) -> datetime | None:
    """An instant that was given: in UTC where it has no zone, of a date its midnight in UTC.

    Raises DefinitionError, with the option's name, for what is none.
    """
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(value.isoformat() if isinstance(value, date) else value)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        raise DefinitionError(
            f"{name} is {value!r}; expected an instant: a datetime, a date or ISO 8601 text, such "
            "as '2024-05-01T00:00:00Z'."
        ) from None


def number_of(name: str, value: Any) -> int | None:
    """A whole number that was given. Raises DefinitionError, with the option's name."""
    if value is None:
        return None
    if isinstance(value, SupportsIndex | Decimal | str) and not isinstance(value, bool):
        with suppress(ValueError, ArithmeticError):
            found = int(value)
            if isinstance(value, str) or found == value:
                return found
    raise DefinitionError(f"{name} is {value!r}; expected a whole number, such as 41.")


def rules_of(rules: RuleOrRules) -> tuple[Rule, ...]:
    """Rules, however nested: `rules=[*quarantine(…)]` and `rules=[quarantine(…)]` alike."""
    if isinstance(rules, Iterable) and not isinstance(rules, str):
        return tuple(rule for each in rules for rule in rules_of(each))
    if not isinstance(rules, Rule):
        raise DefinitionError(
            f"{rules!r} is no rule; build one, such as "
            "quarantine(satisfies('price_ok', 'price >= 0'))."
        )
    return (rules,)


def write_of(options: LoaderOptions, key: tuple[str, ...]) -> WriteStrategy:
    """How the rows land: as `write` declares, or else by whether there is a key."""
    write = options.get("write")
    if "history" in options or "ignore_changes_in" in options:  # deprecated in 0.1
        text = "history and ignore_changes_in are deprecated: write=SCD2(ignore_changes_in=(…))."
        warn(text, DeprecationWarning, stacklevel=5)  # the call of load_incremental
        if write is None and options.get("history"):
            return SCD2(names_of("ignore_changes_in", options.get("ignore_changes_in")))
    return (Merge() if key else Append()) if write is None else write
