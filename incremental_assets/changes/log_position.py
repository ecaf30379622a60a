"""Where a Debezium event stands in its source's log: one number, and one within it.

Which numbers order the versions of one key, and why:

- `lsn` (Postgres): the event's own lsn, then the order in the transaction. Row locks keep the lsn
  of one row in the order of its changes, also where a long transaction commits late. A snapshot
  read takes no lock: what a snapshot, initial or incremental, reads while a transaction is open,
  which then commits with an earlier lsn, is taken for newer. (`source.sequence`, the last commit
  seen, would order the two; but all changes between two commits share it, so a history would lose
  versions.)
- `binlog` (MySQL, MariaDB): the file's number * 10^20 + pos, then the order in the transaction and
  the row of the event. The binary log is written at commit, so its order is that of the commits. A
  compressed transaction is one event there, with one pos, and the rows of each event inside it are
  counted from 0. Another server's files begin again.
- `commit_lsn` (SQL Server, Db2, Informix): commit_lsn, then change_lsn and event_serial_no, as the
  connectors themselves order the change tables. change_lsn alone is in order only in a transaction.
- `scn` (Oracle): commit_scn, or for a snapshot scn; then scn and the order in the transaction. A
  connector that does not send that names the redo record (`rs_id`), by log, block and offset, and
  the row in it (`ssn`); one scn is in one log.
- `oplog` (MongoDB): the cluster time's seconds (`source.ts_ms`), then its ordinal `ord`, then the
  order in the transaction, whose events all share one cluster time and, without it, one position.
- `time`: the time of the change in nanoseconds, then the time at which the connector saw it, then
  the order in the transaction. The last resort: clocks go back, and many count seconds. So are
  ordered the logs whose position is no number, as those of Vitess and Spanner.

At the same position a snapshot read comes before every change, also before those whose number
within is lower: what a read saw is the outcome of a change that is in the log or older than it.
Positions compare only within one log: a failover, a new cluster or a restored database starts
another one, which is landed as a source of its own or with a new snapshot into a table rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from incremental_assets.changes.log_sequence import cdc_lsn
from incremental_assets.errors import SourceError

PositionKind = Literal["lsn", "binlog", "commit_lsn", "scn", "oplog", "time"]
POSITION_KINDS: tuple[PositionKind, ...] = get_args(PositionKind)

# The fields of an event that hold its position, with the types that they are read as.
SOURCE: dict[str, str] = {
    **dict.fromkeys(("lsn", "pos", "row", "commit_scn", "scn", "ssn", "ord"), "bigint"),
    "event_serial_no": "bigint",
    **dict.fromkeys(("file", "commit_lsn", "change_lsn", "rs_id"), "string"),
}
TRANSACTION: dict[str, str] = {"total_order": "bigint", "data_collection_order": "bigint"}
TIMES: dict[str, str] = {"ts_ms": "bigint", "ts_us": "bigint", "ts_ns": "bigint"}

_DECIMAL = "decimal(38,0)"
# Oracle's address of a redo record, in hexadecimal: log sequence, block and offset in the block.
_REDO = "^ *(?:0x)?[0-9a-fA-F]+[.]([0-9a-fA-F]{1,8})[.]([0-9a-fA-F]{1,4}) *$"


@dataclass(frozen=True, slots=True)
class _PositionColumns:
    """A kind of position, in SQL: its number, and the two numbers within it.

    Column by column these few expressions would be five hundred calls to the JVM at each load.
    """

    order: str
    first: str
    second: str
    # Of the 36 digits for both: `_within` has one before them and one after.
    digits_of_first: int = 19
    # What an event needs besides the number to have such a position.
    needs: tuple[str, ...] = ()

    @property
    def there(self) -> str:
        """When an event has it."""
        return " AND ".join(f"{number} IS NOT NULL" for number in (self.order, *self.needs))

    @property
    def within(self) -> str:
        second = _digits(self.second, 36 - self.digits_of_first)
        return f"concat({_digits(self.first, self.digits_of_first)}, {second})"


# In the order in which they are tried.
_POSITIONS: dict[PositionKind, _PositionColumns] = {
    "lsn": _PositionColumns(order="_dbz_at.lsn", first="_dbz_log.nth", second="0"),
    "binlog": _PositionColumns(
        order="concat(CAST(_dbz_log.file AS string), lpad(CAST(_dbz_at.pos AS string), 20, '0'))",
        # Without an order in the transaction the position is the one that it always was.
        first="coalesce(_dbz_log.nth, _dbz_at.row)",
        second="if(_dbz_log.nth IS NULL, 0L, _dbz_at.row)",
    ),
    "commit_lsn": _PositionColumns(
        order="_dbz_log.commit_lsn",
        first="_dbz_log.change_lsn",
        second="_dbz_at.event_serial_no",
        digits_of_first=30,
    ),
    "scn": _PositionColumns(
        order="coalesce(_dbz_at.commit_scn, _dbz_at.scn)",
        first="_dbz_at.scn",
        second="coalesce(_dbz_log.nth, _dbz_log.redo, _dbz_at.ssn)",
    ),
    "oplog": _PositionColumns(
        order="_dbz_at.source_ts_ms",
        first="_dbz_at.ord",
        second="_dbz_log.nth",
        needs=("_dbz_at.ord",),
    ),
    "time": _PositionColumns(
        order="coalesce(_dbz_log.changed, _dbz_log.seen)",
        first="_dbz_log.seen",
        second="_dbz_log.nth",
    ),
}


def with_position(rows: DataFrame, field: Callable[[str], str], read: Column) -> DataFrame:
    """Add `_position_kind`, `_order` and `_within` (see above); null where there is no position.

    And `_changed_at: timestamp`, when the change happened; else when the connector saw it.

    `field` gives an event's field by its path (`source.lsn`, `ts_ms`) as SQL, of the type above;
    `read` is whether the event is a snapshot read. Negative numbers count as missing.
    """
    paths = {name: f"source.{name}" for name in SOURCE}
    paths |= {f"source_{name}": f"source.{name}" for name in TIMES}
    paths |= {name: f"transaction.{name}" for name in TRANSACTION} | {name: name for name in TIMES}
    types = {**SOURCE, **TRANSACTION, **TIMES}
    at = (
        f"'{name}', " + (field(path) if types.get(name) == "string" else _natural(field(path)))
        for name, path in paths.items()
    )
    rows = rows.withColumn("_dbz_at", F.expr(f"named_struct({', '.join(at)})"))
    rows = rows.withColumn("_dbz_log", F.struct(*(c.alias(name) for name, c in _derived().items())))
    kind = " ".join(f"WHEN {p.there} THEN '{kind}'" for kind, p in _POSITIONS.items())
    rows = rows.withColumn("_position_kind", F.expr(f"CASE {kind} END"))
    within = F.concat(F.when(read, "0").otherwise("1"), _by_kind("within"), F.lit("1"))
    return rows.withColumns(
        {
            "_order": _by_kind("order").try_cast(_DECIMAL),
            "_within": within.try_cast(_DECIMAL),
            "_changed_at": F.expr(
                "timestamp_micros(coalesce(_dbz_log.changed, _dbz_log.seen) DIV 1000)"
            ),
        }
    ).drop("_dbz_at", "_dbz_log")


def _derived() -> dict[str, Column]:
    return {
        "file": F.regexp_extract("_dbz_at.file", r"\.([0-9]+)$", 1).try_cast("bigint"),
        "commit_lsn": _either_lsn("commit_lsn"),
        "change_lsn": _either_lsn("change_lsn"),
        "changed": F.expr(_nanoseconds("_dbz_at.source_ts")),
        "seen": F.expr(_nanoseconds("_dbz_at.ts")),
        "nth": F.expr("coalesce(_dbz_at.total_order, _dbz_at.data_collection_order)"),
        "redo": F.expr(_redo()),
    }


def _redo() -> str:
    """The place of Oracle's redo record in its log, in 17 digits: block, offset and row."""
    block, offset = (
        f"try_cast(conv(regexp_extract(_dbz_at.rs_id, '{_REDO}', {part}), 16, 10) AS bigint)"
        for part in (1, 2)
    )
    return f"{block} * 10000000L + {offset} * 100L + least(coalesce(_dbz_at.ssn, 0L), 99L)"


def _by_kind(part: Literal["order", "within"]) -> Column:
    cases = (
        f"WHEN '{kind}' THEN CAST({getattr(position, part)} AS string)"
        for kind, position in _POSITIONS.items()
    )
    return F.expr(f"CASE _position_kind {' '.join(cases)} END")


def _digits(number: str, width: int) -> str:
    """A number as so many digits; zeros where it is missing or has more."""
    text = f"CAST({number} AS string)"
    return f"if(length({text}) <= {width}, lpad({text}, {width}, '0'), '{'0' * width}')"


def _nanoseconds(time: str) -> str:
    return f"coalesce({time}_ns, try_multiply({time}_us, 1000L), try_multiply({time}_ms, 1000000L))"


def _either_lsn(name: str) -> Column:
    """SQL Server's and Db2's parts in hexadecimal, or Informix' one number."""
    one_number = F.expr(_natural(f"try_cast(_dbz_at.{name} AS bigint)")).cast(_DECIMAL)
    return F.coalesce(cdc_lsn(F.col(f"_dbz_at.{name}")), one_number)


def _natural(number: str) -> str:
    return f"nullif(greatest({number}, -1L), -1L)"


def kind_counts() -> dict[PositionKind, Column]:
    """For each kind, an aggregate: how many events fix the log's kind by having it.

    For rows as `envelopes` gives them. A snapshot read that has only a time fixes nothing.
    """
    changes = F.col("_operation").isin("upsert", "delete", "truncate")
    of_kind = {kind: changes & (F.col("_position_kind") == kind) for kind in POSITION_KINDS}
    of_kind["time"] &= ~F.col("_snapshot")
    return {kind: F.count_if(condition) for kind, condition in of_kind.items()}


def settle_position_kind(
    counts: Mapping[PositionKind, int], remembered: PositionKind | None, log: str
) -> PositionKind | None:
    """The kind by which a log's events are ordered, from then on; None while it is unknown.

    `counts` are those of a batch (`kind_counts`), `remembered` is what earlier loads settled on,
    `log` names the log in a message. Events that have only a time decide where nothing else does;
    in a log that has positions they are left to `with_positions`. Raises SourceError where two
    kinds of position meet, or a position meets a log that is ordered by time.
    """
    found = [kind for kind in POSITION_KINDS if counts.get(kind)]
    positions = [kind for kind in found if kind != "time"]
    kinds = positions or found
    if remembered == "time" or (remembered and positions):
        kinds = sorted({remembered, *kinds}, key=POSITION_KINDS.index)
    if len(kinds) > 1:
        batch = ", ".join(f"{counts[kind]} of kind {kind!r}" for kind in found)
        earlier = f"; earlier loads ordered it by {remembered!r}" if remembered else ""
        raise SourceError(
            f"The change log {log} has events of {len(kinds)} logs: {batch}{earlier}. Positions "
            "of different kinds have no order between them: land the events of each source as a "
            "log of their own or, where the source was replaced, rebuild the table from the new."
        )
    return remembered or (kinds[0] if kinds else None)


def with_positions(rows: DataFrame, kind: PositionKind | None) -> DataFrame:
    """The rows with `_order` and `_within` as a log of this kind has them.

    Events of the kind keep theirs. Snapshot reads without a position come before everything:
    order 0, by their time within it. For all others both are null: it is unknown where
    they belong, and the caller quarantines them.
    """
    of_kind = (F.col("_position_kind") == kind) if kind else F.lit(False)
    timed = F.coalesce(F.col("_position_kind") == "time", F.lit(True))
    before_all = F.col("_snapshot") & timed
    zero = F.lit(0).cast(_DECIMAL)
    time = F.coalesce("_order", zero)
    return rows.withColumns(
        {
            "_order": F.when(of_kind, F.col("_order")).when(before_all, zero),
            "_within": F.when(of_kind, F.col("_within")).when(before_all, time),
        }
    )
