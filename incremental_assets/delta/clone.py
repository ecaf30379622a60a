"""A shallow clone of a version of a table: a log of its own over the other's files.

No row is copied, and nothing that happens to the clone changes the files: only VACUUM removes
files, and only those in the folder of its own table.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction

from incremental_assets.delta.delta_table import PROPERTIES
from incremental_assets.delta.read import plain_files
from incremental_assets.delta_protocol.commit import commit_files
from incremental_assets.errors import LakeError
from incremental_assets.locations import local_path

_BATCH = "_batch"


def clone(path: str, version: int, to: str, *, rows: bool = True) -> None:
    """Create a table at `to` with the columns of a version of the table at `path`, and its `rows`.

    Raises LakeError if the version is no longer there, or if its files cannot be read as they are.
    """
    files = {file.path: file for file in plain_files(path, version).files}
    local = local_path(path)
    root = f"file://{local}" if local is not None else path
    try:
        table = DeltaTable(path, version=version)
        names = table.metadata().partition_columns
        active = pa.table(table.get_add_actions(flatten=True))
        counts = active["num_records"].to_pylist()
        adds = [
            AddAction(
                path=f"{root}/{file.path}",
                size=file.size,
                partition_values={name: _text(file.partition[name]) for name in names},
                modification_time=0,
                data_change=True,
                stats=_statistics(count, file.first_batch, file.last_batch),
            )
            for file, count in zip(files.values(), counts, strict=True)
        ]
        folder = local_path(to)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        created = DeltaTable.create(
            to, table.schema(), partition_by=names, configuration=PROPERTIES
        )
        if adds and rows:
            commit_files(created, adds)
    except (DeltaError, OSError) as error:
        raise LakeError(f"{path} at version {version} cannot be read from {to}: {error}") from error


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _statistics(rows: int | None, first: int | None, last: int | None) -> str:
    """The statistics that readers prune files by: the rows, and the batches of these."""
    found: dict[str, Any] = {} if rows is None else {"numRecords": rows}
    if first is not None and last is not None:
        found |= {"minValues": {_BATCH: first}, "maxValues": {_BATCH: last}}
    return json.dumps(found)
