"""Compaction of the ledger: small files of a table become one, in a commit that is tried once.

Not by delta-rs's own `optimize.compact`: of two at once, both pass, `max_commit_retries=0` or not,
and every row is duplicated (measured on deltalake 1.6.6).
"""

from __future__ import annotations

import io
import json
import posixpath
import time
import uuid
from collections.abc import Collection, Sequence
from datetime import date
from itertools import groupby
from typing import Any
from urllib.parse import quote

import polars as pl
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

from incremental_assets.delta_protocol.commit import NO_HOOKS, commit_files, write_due_checkpoint
from incremental_assets.ledger.entry import Entry, to_frame
from incremental_assets.ledger.snapshot import STATISTICS, LedgerFile, LedgerSnapshot
from incremental_assets.locations import local_path
from incremental_assets.storage import write_file

# A longer bound would have to be cut, and the cut one rounded; without it the file is read.
_LONGEST_BOUND = 64


def compact(snapshot: LedgerSnapshot, table: DeltaTable, files: Sequence[LedgerFile]) -> set[str]:
    """Replace these files by one for each table that has several.

    Gives the paths of the files that the ledger has then, with the entries of the snapshot.
    `table` is the very object that the snapshot was taken of. Raises CommitFailedError, and
    changes nothing, if another process committed since.
    """
    now = int(time.time() * 1000)
    actions: list[AddAction | RemoveAction] = []
    paths = {file.path for file in snapshot.files}
    for _, group in groupby(sorted(files, key=_table), key=_table):
        some = list(group)
        if len(some) > 1:
            compacted = _compacted(snapshot, some, now)
            paths = (paths - {file.path for file in some}) | {compacted.path}
            actions.append(compacted)
            actions += [RemoveAction(f.path, False, now, f.size, {"table": f.table}) for f in some]
    _commit(snapshot.root, table, actions)
    return paths


def replace_tables(
    snapshot: LedgerSnapshot, table: DeltaTable, names: Collection[str], entries: Sequence[Entry]
) -> None:
    """Replace all entries of some tables by these, in one commit.

    Raises CommitFailedError, and changes nothing, if another process committed since.
    """
    now = int(time.time() * 1000)
    actions: list[AddAction | RemoveAction] = [
        RemoveAction(f.path, True, now, f.size, {"table": f.table})
        for f in snapshot.files
        if f.table in names
    ]
    for name in names:
        own = to_frame([entry for entry in entries if entry.table == name]).drop("table")
        if own.height:
            folder = f"table={quote(name, safe='')}"
            local = local_path(f"{snapshot.root}/{folder}")
            if local is not None:
                local.mkdir(exist_ok=True)
            path = f"{folder}/part-00000-{uuid.uuid4()}-c000.zstd.parquet"
            size = _write(f"{snapshot.root}/{path}", own)
            actions.append(AddAction(path, size, {"table": name}, now, True, _statistics(own)))
    _commit(snapshot.root, table, actions)


def _commit(root: str, table: DeltaTable, actions: Sequence[AddAction | RemoveAction]) -> None:
    commit_files(table, actions, hooks=NO_HOOKS)
    write_due_checkpoint(table, root, table.version() + 1, cut=False)


def _compacted(snapshot: LedgerSnapshot, files: Sequence[LedgerFile], now: int) -> AddAction:
    order = ("batch", "day", pl.col("state") != "claimed")
    rows = pl.concat(snapshot.rows(files)).sort(*order).drop("table")
    name = f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"
    path = posixpath.join(posixpath.dirname(files[0].path), name)
    size = _write(f"{snapshot.root}/{path}", rows)
    return AddAction(path, size, {"table": files[0].table}, now, False, _statistics(rows))


def _write(path: str, rows: pl.DataFrame) -> int:
    content = io.BytesIO()
    rows.write_parquet(content)
    write_file(path, content.getvalue())
    return len(content.getvalue())


def _statistics(rows: pl.DataFrame) -> str:
    """Delta's per-file statistics, as JSON: of the columns that the ledger asks for."""
    lows, highs = rows.min().row(0, named=True), rows.max().row(0, named=True)
    bounded = [n for n in STATISTICS if _short(lows[n]) and _short(highs[n])]
    return json.dumps(
        {
            "numRecords": rows.height,
            "minValues": {name: _plain(lows[name]) for name in bounded},
            "maxValues": {name: _plain(highs[name]) for name in bounded},
            "nullCount": dict.fromkeys(bounded, 0),
        }
    )


def _short(bound: Any) -> bool:
    return bound is not None and len(str(bound)) <= _LONGEST_BOUND


def _plain(bound: Any) -> Any:
    return bound.isoformat() if isinstance(bound, date) else bound


def _table(file: LedgerFile) -> str:
    return file.table
