"""The ledger's index: a summary of each day of each table, and which batches concern it.

A row per table and day, aggregated from the table's batches, so it grows with the days and not with
the batches. It is cached in `_standing` below the ledger, rewritten at each compaction, and names
the ledger's files that it was made from. Those are read only for questions about single days. It
can always be rebuilt from the ledger, and is, where there is none, or where it names files that are
no longer in the ledger (a ledger was restored, a compaction died).
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date

import polars as pl

from incremental_assets.file_identity import MODULUS, file_fingerprint
from incremental_assets.ledger.day_summaries import DaySummaries, StoredDays
from incremental_assets.ledger.day_summary import FIRSTS, LASTS, DaySummary
from incremental_assets.ledger.entry import KEEP_HOLDS, Entry, to_frame
from incremental_assets.ledger.snapshot import LedgerSnapshot
from incremental_assets.locations import local_path
from incremental_assets.storage import open_file, write_file

SOURCE_COLUMNS = (
    "table",
    "batch",
    "day",
    "state",
    "kind",
    "mode",
    "windows",
    "files",
    "position",
    "touched",
    "affects",
    "rows_quarantined",
    "code_version",
)
"""The columns of the ledger that it is made from."""
_FORMAT = 2
_FOLDER, _FILE = "_standing", "days.parquet"
_KEY = ("table", "day")
_BATCH = pl.Int64()
# In the file a column has its older name.
_STORED_AS = {"quarantined": "aside"}
# A day that is null means every day: batches whose looked-up rows may concern any day.
_SCHEMA: Mapping[str, pl.DataType] = {
    "table": pl.String(),
    "day": pl.Date(),
    "first": _BATCH,
    "last": _BATCH,
    "first_touched": _BATCH,
    "last_touched": _BATCH,
    "first_affected": _BATCH,
    "last_affected": _BATCH,
    "committed": _BATCH,
    "published": _BATCH,
    "loaded": _BATCH,
    "held": _BATCH,
    "accepted": _BATCH,
    "rewound": _BATCH,
    "quarantined": _BATCH,
    "rebuilt": _BATCH,
    "files": _BATCH,
    "position": pl.String(),
    "read": pl.List(pl.Struct({"upstream": pl.String, "high": pl.Int64})),
    "codes": pl.List(pl.String),
}


class DayIndex:
    """The summaries of all tables, made from the files at `paths`.

    `frames` are the rows of each table, a row a day.
    """

    def __init__(self, frames: Mapping[str, pl.DataFrame], paths: Collection[str] = ()) -> None:
        self.frames = frames
        self.paths = frozenset(paths)
        self._tables: dict[str, DaySummaries] = {}

    @classmethod
    def of(cls, rows: Iterable[pl.DataFrame], paths: Collection[str] = ()) -> DayIndex:
        """Make it from rows with SOURCE_COLUMNS, of any tables and in any order."""
        some = [frame.select(SOURCE_COLUMNS) for frame in rows if frame.height]
        return cls(_by_table(_summarized(pl.concat(some))) if some else {}, paths)

    def followed_by(self, other: DayIndex) -> DayIndex:
        """Both together; no file of the ledger is in both.

        What is known of a table that is not in the other one is carried forward.
        """
        frames = dict(self.frames)
        for name, frame in other.frames.items():
            frames[name] = _with_days(frames[name], frame) if name in frames else frame
        after = DayIndex(frames, self.paths | other.paths)
        after._tables = {n: of for n, of in self._tables.items() if n not in other.frames}
        return after

    def table(self, name: str) -> DaySummaries:
        """The summaries of a table's days; None is every day that looks its rows up."""
        if name not in self._tables:
            self._tables[name] = DaySummaries(StoredDays(self.frames.get(name, _merged([]))))
        return self._tables[name]


def summaries_of(entries: Sequence[Entry]) -> Mapping[date | None, DaySummary]:
    """The summaries of one table's days, made from these entries."""
    return DayIndex.of([to_frame(entries)]).table(entries[0].table) if entries else {}


def index_at(snapshot: LedgerSnapshot, known: DayIndex | None = None) -> DayIndex:
    """The index of a version of the ledger.

    Only files that the `known` index, or else the cached one, was not made from are read: all of
    them where neither is of this version, but only some columns.
    """
    active = {file.path for file in snapshot.files}
    if known is None or not known.paths <= active:
        known = read_index(snapshot.root)
    if known is None or not known.paths <= active:
        known = DayIndex.of(())
    new = [file for file in snapshot.files if file.path not in known.paths]
    if not new:
        return known
    return known.followed_by(
        DayIndex.of(snapshot.columns(new, SOURCE_COLUMNS), [f.path for f in new])
    )


def write_index(root: str, index: DayIndex) -> None:
    """Cache it with the ledger. Raises OSError."""
    head = pl.DataFrame({"format": [_FORMAT], "paths": [sorted(index.paths)]}, schema=_HEAD)
    content = io.BytesIO()
    days = pl.concat([_merged([]), *index.frames.values()]).rename(_STORED_AS)
    rows = pl.concat([head, days], how="diagonal")
    rows.write_parquet(content)
    folder = local_path(f"{root}/{_FOLDER}")
    if folder is not None:
        folder.mkdir(exist_ok=True)
    write_file(f"{root}/{_FOLDER}/{_FILE}", content.getvalue())


def read_index(root: str) -> DayIndex | None:
    """The cached one; None where there is none, or none that this program can read."""
    try:
        with open_file(f"{root}/{_FOLDER}/{_FILE}") as file:
            rows = pl.read_parquet(io.BytesIO(file.read()))
        head = rows.filter(pl.col("format").is_not_null())
        if head["format"].to_list() != [_FORMAT]:
            return None
        rows = rows.rename({stored: name for name, stored in _STORED_AS.items()})
        days = rows.filter(pl.col("format").is_null()).select(*_SCHEMA)
    except (pl.exceptions.PolarsError, OSError):
        return None
    return DayIndex(_by_table(days), head["paths"].to_list()[0])


_HEAD = {"format": pl.Int64(), "paths": pl.List(pl.String)}


def _summarized(rows: pl.DataFrame) -> pl.DataFrame:
    """The summaries of these rows alone."""
    outcomes = rows.filter(pl.col("state") != "claimed")
    committed = outcomes.filter(pl.col("state") == "committed")
    batch = pl.col("batch")
    held, accepted = pl.col("state") == "held", pl.col("state") == "accepted"
    published = pl.col("state") == "committed"
    is_rewind = pl.col("kind") == "rewind"
    days = outcomes.group_by(_KEY).agg(
        batch.min().alias("first"),
        batch.max().alias("last"),
        batch.filter(published).max().alias("committed"),
        batch.filter(published & ~is_rewind).max().alias("published"),
        batch.filter(published & ~pl.col("kind").is_in(KEEP_HOLDS)).max().alias("loaded"),
        batch.filter(held).max().alias("held"),
        batch.filter(accepted).max().alias("accepted"),
        batch.filter(published & is_rewind).max().alias("rewound"),
        batch.filter(_QUARANTINED).max().alias("quarantined"),
        batch.filter(published & _REBUILDS).max().alias("rebuilt"),
        pl.col("windows").filter(published).sort_by(batch.filter(published)).last().alias("read"),
        pl.col("position").filter(published).sort_by(batch.filter(published)).last(),
    )
    read = pl.col("read").list.eval(
        pl.struct(pl.element().struct.field("upstream"), pl.element().struct.field("high"))
    )
    touched = committed.select("table", "batch", day=pl.col("touched").list.eval(_DAY))
    affected = committed.select("table", "batch", day="affects")
    frames = [
        days.with_columns(read).join(_codes(committed), on=list(_KEY), how="left"),
        _loaded_files(committed),
        _bounds(touched.filter(_SOME), "touched"),
        _bounds(affected.filter(pl.col("day").is_null() | _SOME), "affected"),
    ]
    return _merged([_shaped(frame) for frame in frames])


_REBUILDS = (pl.col("mode") == "rebuild") | (pl.col("kind") == "restate")
_QUARANTINED = (pl.col("rows_quarantined") > 0) | pl.col("state").is_in(["abandoned", "dropped"])
_DAY, _SOME = pl.element().struct.field("day"), pl.col("day").list.len() > 0


def _bounds(days: pl.DataFrame, what: str) -> pl.DataFrame:
    batch = pl.col("batch")
    ends = batch.min().alias(f"first_{what}"), batch.max().alias(f"last_{what}")
    return days.explode("day").group_by(_KEY).agg(*ends)


def _loaded_files(committed: pl.DataFrame) -> pl.DataFrame:
    found: dict[tuple[str, date], int] = {}
    some = committed.filter(pl.col("files").list.len() > 0)
    for table, day, files in some.select(*_KEY, "files").iter_rows():
        known = (file_fingerprint(f["path"], f["size"], f["tag"], f["modified"]) for f in files)
        found[table, day] = (found.get((table, day), 0) + sum(known)) % MODULUS
    rows = [(table, day, files) for (table, day), files in found.items()]
    return pl.DataFrame(rows, {n: _SCHEMA[n] for n in (*_KEY, "files")}, orient="row")


def _codes(committed: pl.DataFrame) -> pl.DataFrame:
    """The code versions of each day's batches from its last rebuild on."""
    batch = pl.col("batch")
    since = batch.filter(_REBUILDS).max().over(_KEY)
    made = committed.filter(batch >= pl.coalesce(since, 0))
    return made.group_by(_KEY).agg(pl.col("code_version").unique().sort().alias("codes"))


def _shaped(frame: pl.DataFrame) -> pl.DataFrame:
    missing = [pl.lit(None, kind).alias(n) for n, kind in _SCHEMA.items() if n not in frame]
    return frame.with_columns(missing).select(pl.col(n).cast(k) for n, k in _SCHEMA.items())


def _by_table(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    return {name: some for (name,), some in rows.partition_by("table", as_dict=True).items()}


def _with_days(known: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """The rows of a table, followed by new ones: only days that have any are merged."""
    days = new.select("day")
    others = known.join(days, on="day", how="anti", nulls_equal=True)
    same = known.join(days, on="day", how="semi", nulls_equal=True)
    return pl.concat([others, _merged([same, new])])


def _merged(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """One row per table and day of several; it does not matter in which order they come."""
    some = [frame for frame in frames if frame.height]
    if not some:
        return pl.DataFrame(schema=dict(_SCHEMA))
    if len(some) == 1:
        return some[0]
    rows = pl.concat(some)
    committed, rebuilt = pl.col("committed"), pl.col("rebuilt")
    of_last = pl.col("read", "position").sort_by(committed, nulls_last=False).last()
    # No row is left of batches that a later rebuild has replaced.
    counts = pl.coalesce(rebuilt, committed) >= pl.coalesce(rebuilt.max(), 0)
    return (
        rows.group_by(_KEY)
        .agg(
            *(pl.col(name).min() for name in FIRSTS),
            *(pl.col(name).max() for name in LASTS),
            of_last,
            pl.col("files").sum() % MODULUS,
            pl.col("codes").filter(counts).explode().drop_nulls().unique().sort().alias("codes"),
            committed.max(),
            rebuilt.max(),
        )
        .select(pl.col(n).cast(k) for n, k in _SCHEMA.items())
    )
