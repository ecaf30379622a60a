"""A table that stands for a version of another one: a log of its own over the other's files.

What a shallow clone is to Delta. No row is copied, and nothing that happens to the clone reaches
the files: only VACUUM removes files, and it looks into the folder of its own table alone.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction

from incremental_assets.delta.delta_log import PROPERTIES
from incremental_assets.delta.read import plain_files
from incremental_assets.delta_commit import commit_files
from incremental_assets.errors import LakeError
from incremental_assets.settings import local_path

_BATCH = "_batch"


def clone(path: str, version: int, to: str) -> None:
    """Make a table at `to` that holds the rows of a version of the table at `path`.

    Raises LakeError if the version is gone, or if the files are not the whole truth about it.
    """
    files = {file.path: file for file in plain_files(path, version).files}
    local = local_path(path)
    root = f"file://{local}" if local is not None else path
    try:
        table = DeltaTable(path, version=version)
        names = table.metadata().partition_columns
        active = pa.table(table.get_add_actions(flatten=True))
        rows = active["num_records"].to_pylist()
        adds = [
            AddAction(
                path=f"{root}/{file.path}",
                size=file.size,
                partition_values={name: _text(file.partition[name]) for name in names},
                modification_time=0,
                data_change=True,
                stats=_statistics(count, file.first_batch, file.last_batch),
            )
            for file, count in zip(files.values(), rows, strict=True)
        ]
        place = local_path(to)
        if place is not None:
            place.mkdir(parents=True, exist_ok=True)
        made = DeltaTable.create(to, table.schema(), partition_by=names, configuration=PROPERTIES)
        if adds:
            commit_files(made, adds)
    except (DeltaError, OSError) as error:
        raise LakeError(f"{path} at version {version} cannot be read from {to}: {error}") from error


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _statistics(rows: int | None, first: int | None, last: int | None) -> str:
    """What readers skip files by: their rows, and the batches of these."""
    found: dict[str, Any] = {} if rows is None else {"numRecords": rows}
    if first is not None and last is not None:
        found |= {"minValues": {_BATCH: first}, "maxValues": {_BATCH: last}}
    return json.dumps(found)
