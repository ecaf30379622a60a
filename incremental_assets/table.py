"""A table: what it is, what it reads, and what it promises."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Literal

from pyspark.sql import DataFrame

from incremental_assets.changes.detector import Detector
from incremental_assets.changes.files import Files
from incremental_assets.errors import DefinitionError
from incremental_assets.lineage import Lineage, check_lineage
from incremental_assets.quality.contract import Contract
from incremental_assets.quality.gate import structural_rules
from incremental_assets.quality.row_rules import KEY_COMPLETE, key_complete, required
from incremental_assets.quality.rule import RowRule, Rule, Severity
from incremental_assets.sources.bronze_input import BronzeInput
from incremental_assets.sources.feed import Feed
from incremental_assets.sources.loaded_files import NOTHING_LOADED, LoadedFiles
from incremental_assets.sources.source import Source
from incremental_assets.table_checks import check_kinds, check_table
from incremental_assets.writes import WriteStrategy

Layer = Literal["bronze", "silver", "gold"]
Transform = Callable[..., DataFrame]
_NAME = re.compile(r"(bronze|silver|gold)/[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class SameDay:
    """Read the rows of the same day of an upstream table.

    A silver table may read several bronze tables so, such as regions, or a backfill alongside the
    live feed. `values` are then columns of its contract, Text or Integer, that show which one a row
    is of: `SameDay(bronze_eu, values={"region": "eu"})`. They replace a field of that name in the
    row.
    """

    table: Table
    values: Mapping[str, str | int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class AsOf:
    """Look up the version of `table` that was valid when a row of the fact happened.

    `key` is the column that both share, `at` the fact's timestamp and `valid_from` the version's,
    which an `SCD2` has by itself. Before the first version the first one holds; after a delete,
    which an `SCD2` knows of, none.
    """

    table: Table
    key: str
    at: str
    valid_from: str = "valid_from"

    @property
    def valid_to(self) -> str:
        """The column of a version's end; "" where the next version's begin is its end."""
        return "valid_to" if self.table.write.keeps_versions else ""


TableInput = BronzeInput | SameDay | AsOf


@dataclass(frozen=True, slots=True)
class Sums:
    """What a gold table must agree on with its upstream: SQL of either side, by name.

    `{"revenue": ("sum(qty * unit_price)", "sum(total_price)")}`; row counts always count when
    `rows` is true.
    """

    sums: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    rows: bool = True


@dataclass(frozen=True, slots=True)
class Check:
    """A rule as Dagster shows it: its description, its severity and its owner."""

    description: str
    severity: Severity
    owner: str = ""

    @property
    def blocking(self) -> bool:
        """Whether the day is held."""
        return self.severity == "fail"


@dataclass(frozen=True)
class Table:
    """One table of the lake.

    `name` is `layer/table`. `key` and `version_by` define which rows are versions of one thing and
    which version is the later one; in a row that is published no column of the key is null. `day`
    is the timestamp whose UTC date is the business day, declared unchanging for a key; None
    partitions by the landing day instead. `allowed_lateness` is how long after its business day a
    row may land ("default": the setting; None: for ever).
    `changes` is how the source of a bronze table shows what is new, and so what its rows mean
    to the silver table: with a change log or snapshots, inserts, updates and deletes.
    `transform` is a pure function from the frames that are read to the rows that are written, and
    `lineage` names the columns of them that its columns are made of, where the names differ.
    `fresh_within` is how long ago the table may have been published last ("default": the setting,
    for bronze and gold; None: no check, as for a feed that lands once a month).
    """

    name: str
    description: str
    reads: tuple[TableInput, ...]
    write: WriteStrategy
    key: tuple[str, ...] = ()
    version_by: tuple[str, ...] = ()
    day: str | None = None
    allowed_lateness: timedelta | Literal["default"] | None = None
    changes: Detector = field(default_factory=Files)
    schema: Contract | None = None
    rules: tuple[Rule, ...] = ()
    sums: Sums | None = None
    transform: Transform | None = None
    lineage: Lineage = field(default_factory=dict)
    fresh_within: timedelta | Literal["default"] | None = "default"
    owners: tuple[str, ...] = ("team:data",)
    code_version: str = "1"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise DefinitionError(
                f"Table name {self.name!r}: expected bronze/…, silver/… or gold/… in lower case."
            )
        check_kinds(self)
        rules = [rule for rule in self.rules if rule.name != KEY_COMPLETE]
        object.__setattr__(self, "rules", (*rules, *self._required()))
        check_table(self)
        check_lineage(self)

    def _required(self) -> Sequence[Rule]:
        """The rules that required columns, key and day are not null, where none is declared.

        The events of a log are checked for their key anyway. A gold table has no rows to
        quarantine: where it is looked up by its key, an incomplete key holds the day.
        """
        if not self.is_typed:
            by_key = self.layer == "gold" and self.write.by_key
            return [key_complete(*self.key)] if by_key and self.key else ()
        if self.schema is None:
            return ()
        named = {rule.name for rule in self.rules} | {
            f"{column}_not_null" for column in self.key if self.log is not None
        }
        known = self.schema.columns.items()
        needed = {*self.key, self.day}
        columns = [name for name, kind in known if kind.required or name in needed]
        return [required(name) for name in columns if f"{name}_not_null" not in named]

    @property
    def layer(self) -> Layer:
        """bronze, silver or gold."""
        layer, _, _ = self.name.partition("/")
        return layer  # type: ignore[return-value]  # the name was checked against the three

    @property
    def input(self) -> BronzeInput | None:
        """The feed or the source that the table reads, if it is a bronze table."""
        return next((read for read in self.reads if isinstance(read, BronzeInput)), None)

    @property
    def feed(self) -> Feed | None:
        """The feed that it reads, where its input is one: files that are listed by day."""
        return self.input if isinstance(self.input, Feed) else None

    @property
    def source(self) -> Source | None:
        """The source that it reads in place, where its input is one: it is fixed whole."""
        return self.input if isinstance(self.input, Source) else None

    @property
    def source_columns(self) -> tuple[tuple[str, str], ...]:
        """The columns, with their types, that its input adds to those of a bronze table."""
        return self.input.bronze_columns if self.input is not None else ()

    @property
    def has_landed_paths(self) -> bool:
        """Whether its rows are those of landed files, each named by its path."""
        return self.input is not None and self.input.has_landed_paths

    def source_in(self, landing: str) -> Source | None:
        """The source for this landing root, read by the detector of the table."""
        source = self.source
        return source and self.changes.reading(source.below(landing))

    def landed_days(
        self, landing: str, loaded: LoadedFiles = NOTHING_LOADED
    ) -> Sequence[date] | None:
        """The landing days of its landed files; None where the rows alone show their days.

        Raises SourceError if the landing root is missing.
        """
        return None if self.input is None else self.input.landed_days(landing, loaded)

    @property
    def why_not_again(self) -> str:
        """Why nothing that it has read can be read again; "" where it can."""
        return "" if self.input is None or self.input.keeps_past else self.changes.why_not_again

    @property
    def landing_column(self) -> str | None:
        """The column of a source whose date is a row's landing day."""
        if self.input is None:
            return None
        return self.input.day or self.changes.landing_column

    @property
    def reads_whole_source(self) -> bool:
        """Whether a load of any day reads all that is new: its source has no days of its own."""
        return self.source is not None and self.landing_column is None

    @property
    def is_typed(self) -> bool:
        """Whether the table types what bronze holds."""
        return self.facts is not None and self.facts.layer == "bronze"

    @property
    def has_declared_columns(self) -> bool:
        """Whether its columns are those of the contract: it types rows and changes none."""
        return self.is_typed and self.schema is not None and self.transform is None

    @property
    def log(self) -> Detector | None:
        """The change log or the snapshots whose events this table makes into rows."""
        facts = self.facts
        found = facts.changes if facts is not None and self.is_typed else None
        return found if found is not None and found.finds_deletes else None

    @property
    def has_side_table(self) -> bool:
        """Whether a load may keep rows beside it, such as the tombstones of its keys."""
        return self.is_typed and self.write.by_key

    @property
    def has_truncates(self) -> bool:
        """Whether among the events that its rows are made of may be one that deletes every row."""
        return self.log is not None and self.log.finds_truncates

    @property
    def upstreams(self) -> Sequence[SameDay | AsOf]:
        """The tables that it reads, in the order of the transform's arguments."""
        return [read for read in self.reads if isinstance(read, SameDay | AsOf)]

    @property
    def same_days(self) -> Sequence[SameDay]:
        """The tables of which it reads the same day: of a silver table all that it types."""
        return [read for read in self.reads if isinstance(read, SameDay)]

    @property
    def lookups(self) -> Sequence[AsOf]:
        """The tables that it looks versions up in."""
        return [read for read in self.reads if isinstance(read, AsOf)]

    @property
    def facts(self) -> Table | None:
        """The upstream whose days are this table's days; of several that are typed, the first."""
        return next((read.table for read in self.same_days), None)

    @property
    def of_payload(self) -> Contract | None:
        """The contract without the columns that show which table a row was read from."""
        values = {name for read in self.same_days for name in read.values}
        return self.schema.without(values) if self.schema and values else self.schema

    def allowed_lateness_in(self, default: timedelta) -> timedelta | None:
        """How long after its business day a row may land; None: for ever."""
        return default if self.allowed_lateness == "default" else self.allowed_lateness

    def fresh_in(self, default: timedelta) -> timedelta | None:
        """How long ago it may have been published last; None: no check."""
        if self.fresh_within != "default":
            return self.fresh_within
        return default if default and self.layer != "silver" else None

    @property
    def row_rules(self) -> Sequence[RowRule]:
        """The rules on rows."""
        return [rule for rule in self.rules if isinstance(rule, RowRule)]

    @property
    def rule_tables(self) -> frozenset[str]:
        """The names of the other tables that its rules read."""
        return frozenset(r.reads_table for r in self.rules if r.reads_table) - {self.name}

    def checks(self) -> Mapping[str, Check]:
        """Every check of the table by its name."""
        found = {r.name: Check(r.description, r.severity, r.owner) for r in self.rules}
        if self.is_typed:
            structural = structural_rules(self.of_payload)
            found |= {name: Check(*fields) for name, fields in structural.items()}
        if self.layer == "bronze":
            found |= {name: Check(*fields) for name, fields in self.changes.checks().items()}
        return found


def feeds_of(tables: Iterable[Table]) -> list[tuple[Table, Feed]]:
    """The tables that read a feed, each with it."""
    return [(table, table.feed) for table in tables if table.feed is not None]
