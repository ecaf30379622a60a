"""A table or query of a database, as a source: inspected without Spark, read by JDBC."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from importlib.util import find_spec
from itertools import pairwise

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType

from incremental_assets.errors import DefinitionError, SourceError
from incremental_assets.frames import Frames
from incremental_assets.plurals import counted
from incremental_assets.sources.credentials import credentials_of, require_variables
from incremental_assets.sources.database import (
    ROWS,
    Access,
    DbColumn,
    DbConnection,
    Relation,
    RowsState,
    Settled,
    ask,
    asking,
    evenly,
    named,
    require_distinct,
)
from incremental_assets.sources.dialect import Dialect
from incremental_assets.sources.dialects import dialect_of, require_url
from incremental_assets.sources.file_fingerprints import FileSpan
from incremental_assets.sources.java_zone import java_zone, require_utc
from incremental_assets.sources.rows import all_readable, require_names, spelled
from incremental_assets.sources.source import NO_TYPES, FixedSource, Source
from incremental_assets.sources.source_file import SourceFile
from incremental_assets.sources.unlogged import unlogged

_NAME = re.compile(r"[^\0\"`.]+(\.[^\0\"`.]+){0,2}")
_OF_TIME = frozenset({"instant", "naive", "date"})


@dataclass(frozen=True, slots=True)
class Jdbc(Source):
    """A table or query of a database, for `Timestamp`, `Sequence` and `SnapshotDiff`.

    `url` is the JDBC URL, without credentials: user and password come from the environment, from
    `<credentials>_USER` and `<credentials>_PASSWORD`. `table` is `table` or `schema.table`, in the
    case that the database keeps; `query` is one SELECT in its place. `day` is as for `Stored`.

    With `partition_by`, a column of numbers, instants or dates, the rows are read by so many
    `partitions` at once, in PostgreSQL all as of one moment. `lag` is after how long a row's
    transaction has ended at the latest: newer rows are left for the next load. Without one, the
    database shows which transactions are open. `fingerprint_query` gives one row that changes
    whenever the rows do, where there is a cheaper one than reading the cursor's column, or every
    row of a snapshot.
    """

    url: str
    table: str = ""
    query: str = ""
    day: str | None = None
    credentials: str = "DATABASE"
    partition_by: str | None = None
    partitions: int = 8
    lag: timedelta | None = None
    fingerprint_query: str = ""

    def __post_init__(self) -> None:
        require_url(self.url)
        if bool(self.table) == bool(self.query):
            raise DefinitionError(f"Jdbc({self.url!r}): give a table or a query, one of the two.")
        if self.table and not _NAME.fullmatch(self.table):
            raise DefinitionError(
                f"Jdbc: {self.table!r} is not the name of a table; expected table or schema.table, "
                "and for names with dots or quotes a query."
            )
        for name in ("query", "fingerprint_query"):
            if ";" in getattr(self, name).strip().rstrip(";"):
                raise DefinitionError(f"Jdbc: the {name} has to be one SELECT, without ';'.")
        require_variables("Jdbc: credentials", self.credentials, "SHOP")
        if not isinstance(self.partitions, int) or self.partitions < 1:
            raise DefinitionError(f"Jdbc: partitions={self.partitions!r}; expected 1 or more.")
        if self.lag is not None and not (
            isinstance(self.lag, timedelta) and self.lag >= timedelta(0)
        ):
            raise DefinitionError(
                f"Jdbc: lag={self.lag!r}; expected a timedelta, such as timedelta(minutes=5)."
            )

    @property
    def path(self) -> str:  # type: ignore[override]
        """The URL without its parameters, and the table or a digest of the query."""
        where = self.url.partition("?")[0]
        if self.table:
            return f"{where}#{self.table}"
        return f"{where}#query-{hashlib.blake2b(self.query.encode(), digest_size=4).hexdigest()}"

    @property
    def can_be_log(self) -> bool:
        return False

    @property
    def dialect(self) -> Dialect:
        """What is particular to the kind of database that the URL names."""
        return dialect_of(self.url)

    @property
    def relation(self) -> Relation:
        """What is read: the table, or the query."""
        if self.table:
            names = tuple(self.table.split("."))
            return Relation(".".join(map(self.dialect.quoted, names)), names)
        return Relation(f"(\n{self.query.strip().rstrip(';')}\n)")

    def access(self) -> Access:
        """How to reach the database. Raises SourceError if a variable is not set."""
        found = credentials_of(self.path, self.credentials)
        return Access(self.url, found.user, found.password)

    @contextmanager
    def connected(self) -> Iterator[DbConnection]:
        """A connection, whose errors are a SourceError."""
        dialect = self.dialect
        if find_spec(dialect.package) is None:
            raise SourceError(
                f"{self.path}: the package {dialect.package} is not installed: pip install "
                f"'incremental-assets[{dialect.extra}]'."
            )
        with asking(self.path), closing(dialect.connect(self.access())) as connection:
            yield connection

    def read_by(self, cursor: str | None) -> Source:
        return ReadBy(self, cursor)

    def fix(self) -> FixedSource:
        return ReadBy(self).fix()


@dataclass(frozen=True, slots=True)
class ReadBy(Source):
    """A table or query, and the column by which a detector reads what is new; None: all rows."""

    of: Jdbc
    cursor: str | None = None

    @property
    def path(self) -> str:  # type: ignore[override]
        return self.of.path

    @property
    def day(self) -> str | None:  # type: ignore[override]
        return self.of.day

    def fix(self) -> FixedSource:
        """What there is now, by queries that the server answers without sending a row."""
        of, dialect = self.of, self.of.dialect
        with of.connected() as connection:
            columns = tuple(dialect.columns(connection, of.relation))
            require_distinct(columns, of.path)
            # Before what is read is fixed: a row that comes meanwhile changes it for the next load.
            own = _own_state(of, connection) if of.fingerprint_query else None
            cursor = named(columns, self.cursor, of.path) if self.cursor else None
            settled = _settled(of, connection, cursor)
            found = FixedJdbc(of.path, _FILES, of, columns, cursor, settled)
            for each in found.compared:
                _refuse_odd(found, connection, each)
            waiting = _waiting(found, connection)
            if own is None:
                seen = dialect.state(connection, of.relation, found.where, columns, cursor)
            elif waiting and settled is not None:  # what was left out is new the next time
                seen = replace(own, state=f"{own.state}:{waiting}:{settled.until}")
            else:
                seen = own
            return replace(found, seen=seen, notes=_notes(found, waiting))


_ALL = "1 = 1"
_FILES = (SourceFile("rows", 0),)


@dataclass(frozen=True)
class FixedJdbc(FixedSource):
    """A table or query as it was inspected; what is read is that, and what has come since."""

    path: str
    files: tuple[SourceFile, ...]
    of: Jdbc
    columns: tuple[DbColumn, ...] = ()
    cursor: DbColumn | None = None
    settled: Settled | None = None
    seen: RowsState = field(default_factory=lambda: RowsState(0, ""))
    notes: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        return f"rows {hashlib.blake2b(self.seen.state.encode(), digest_size=16).hexdigest()}"

    @property
    def is_of_one_moment(self) -> bool:
        return self.of.dialect.shares_moment

    @property
    def compared(self) -> Sequence[DbColumn]:
        """The columns that the server compares, so that it can use an index: as they are."""
        names = {self.of.day, self.of.partition_by, self.cursor and self.cursor.name}
        return [column for column in self.columns if column.name in names]

    @property
    def json_columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(column.name for column in self.columns if column.is_json)

    @property
    def unsettled(self) -> str:
        """The condition on the rows that are left for the next load; "" for none."""
        if self.settled is None or self.cursor is None:
            return ""
        return self.of.dialect.unsettled(self.cursor, self.settled)

    @property
    def where(self) -> str:
        """The condition on the rows that are read; "" for all."""
        return f"WHERE ({self.unsettled}) IS NOT TRUE" if self.unsettled else ""

    def rows(
        self,
        frames: Frames,
        known: Mapping[str, DataType] = NO_TYPES,
        only: Collection[str] | None = None,
    ) -> DataFrame:
        if only is not None:
            raise ValueError(f"{self.path} is a table of a database; `only` is for files")
        of, access = self.of, self.of.access()
        require_names([column.name for column in self.columns], self.path)
        partitions = self._partitions()
        with asking(self.path):
            moment = frames.keep(("jdbc", of), lambda: of.dialect.moment(access))
        raw = {column.name for column in self.compared if column.kind in _OF_TIME}
        values = ", ".join(
            of.dialect.quoted(c.name) if c.name in raw else c.value for c in self.columns
        )
        with unlogged():  # the password
            read = frames.session.read.jdbc(
                of.dialect.spark_url(of.url),
                f"(SELECT {values} FROM {of.relation} {ROWS} {self.where}) {ROWS}",
                predicates=partitions,
                properties={
                    "driver": of.dialect.driver,
                    "user": access.user,
                    "password": access.password,
                    "fetchsize": "10000",
                    "preferTimestampNTZ": "true",
                    **moment,
                },
            )
        if any(column.kind in _OF_TIME for column in self.columns):
            zone = frames.keep("zone of Java", lambda: nullcontext(java_zone(frames.session)))
            require_utc(zone, self.path)
        return spelled(all_readable(read), known)

    def day_spans(self, column: str) -> Sequence[FileSpan] | None:
        at = named(self.columns, column, self.path)
        with self.of.connected() as connection:
            found = self.of.dialect.days(connection, self.of.relation, self.where, at)
        if found is None:
            return None
        low, high = (
            None if end is None else datetime(end.year, end.month, end.day, tzinfo=UTC)
            for end in (found.first, found.last)
        )
        all_without = found.without == found.rows
        dayless = "none" if not found.without else "all" if all_without else "some"
        return (FileSpan.of((self.fingerprint,), low, high, dayless),)

    def rows_by_day(
        self, column: str, days: Collection[date], last: date
    ) -> Mapping[date, str] | None:
        at = named(self.columns, column, self.path)
        with self.of.connected() as connection:
            return self.of.dialect.rows_by_day(
                connection, self.of.relation, self.where, self.columns, at, days, last
            )

    def highest(self, column: str) -> datetime | int | None:
        of_cursor = self.cursor is not None and self.cursor.name == column
        return self.seen.highest if of_cursor else None

    def explained(self, error: Exception) -> SourceError | None:
        return self.of.dialect.ended_read(error, self.path)

    def size(self) -> int:
        return self.seen.rows * self.seen.row_bytes

    def _partitions(self) -> list[str]:
        """The conditions on the rows of each partition."""
        of = self.of
        if of.partition_by is None or of.partitions == 1:
            return [_ALL]
        column = named(self.columns, of.partition_by, self.path)
        if not column.kind:
            raise SourceError(
                f"{self.path}: partition_by={column.name!r} holds neither numbers nor instants nor "
                "dates. Nothing was loaded; name a column that does, or leave it out."
            )
        with of.connected() as connection:
            low, high = of.dialect.ends(connection, of.relation, self.where, column)
        try:
            cuts = [of.dialect.literal(cut) for cut in evenly(low, high, of.partitions)]
        except (ArithmeticError, ValueError):  # NaN, infinity
            return [_ALL]
        if not cuts:
            return [_ALL]
        at = of.dialect.quoted(column.name)
        if column.kind == "number" and column.value != at:  # read as text
            at = of.dialect.number(at)
        between = [f"{at} >= {low} AND {at} < {high}" for low, high in pairwise(cuts)]
        return [f"{at} < {cuts[0]} OR {at} IS NULL", *between, f"{at} >= {cuts[-1]}"]


def _settled(of: Jdbc, connection: DbConnection, cursor: DbColumn | None) -> Settled | None:
    """Up to when rows are read; None: all of them."""
    if cursor is None:
        return None
    if of.lag is not None:
        now = of.dialect.clock(connection)
        return Settled(now - of.lag, now) if of.lag else None
    if cursor.kind not in _OF_TIME:
        return None
    try:
        return of.dialect.settled(connection, of.relation)
    except SourceError as error:
        raise SourceError(f"{of.path}: {error}. Nothing was loaded.") from error


def _waiting(found: FixedJdbc, connection: DbConnection) -> int:
    """How many rows are left for the next load."""
    if not found.unsettled:
        return 0
    rows = f"FROM {found.of.relation} {ROWS} WHERE {found.unsettled}"
    return int(ask(connection, f"SELECT COUNT(*) {rows}")[0][0])


def _notes(found: FixedJdbc, waiting: int) -> tuple[str, ...]:
    """What rows wait for, where that may last."""
    settled = found.settled
    if settled is None or not waiting or not settled.why:
        return ()
    begun = settled.until.isoformat(timespec="seconds")
    rows = counted(waiting, "row")
    return (f"{found.path}: {rows} from {begun} on will be read once {settled.why}.",)


def _refuse_odd(found: FixedJdbc, connection: DbConnection, column: DbColumn) -> None:
    """Raise SourceError for an instant that Spark has no value for, where rows are compared."""
    odd = found.of.dialect.odd(column)
    if not odd:
        return
    at, relation = found.of.dialect.quoted(column.name), found.of.relation
    one = found.of.dialect.text(f"min({at})")
    query = f"SELECT count(*), {one} FROM {relation} {ROWS} WHERE {odd}"
    ((rows, one),) = ask(connection, query)
    if rows:
        raise SourceError(
            f"{found.path}: {counted(rows, 'row')} with a {column.name} that Spark has no value "
            f"for, such as {one}. Nothing was loaded; repair them, or pass a query that makes "
            f"them null: CASE WHEN {odd} THEN NULL ELSE {at} END AS {at}"
        )


def _own_state(of: Jdbc, connection: DbConnection) -> RowsState:
    """What the query of the user's own shows."""
    found = ask(connection, of.fingerprint_query.strip().rstrip(";"))
    if len(found) != 1:
        raise SourceError(
            f"{of.path}: the fingerprint_query gave {len(found)} rows; it has to give one. "
            "Nothing was loaded."
        )
    return RowsState(0, repr(tuple(found[0])))
