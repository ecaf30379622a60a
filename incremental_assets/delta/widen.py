"""Columns whose type was widened: the table is rewritten with the wider type before a batch.

Delta can widen a type in the log alone, but such a table cannot be read by delta-rs and polars,
which every load and many readers use. So the files are rewritten, in one commit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from incremental_assets.delta.delta_table import bytes_of, field_of, open_table
from incremental_assets.delta.read import read_version
from incremental_assets.delta.stage import NO_BATCH, stage
from incremental_assets.delta_protocol.commit import ONCE
from incremental_assets.errors import ConflictError, DefinitionError, LakeError
from incremental_assets.frames import quoted

_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
# How many digits a whole number may have.
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
_ORDER = tuple(_DIGITS)
_SQL = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}


def widen(session: SparkSession, path: str, name: str, columns: Iterable[StructField]) -> list[str]:
    """Give the table's columns the types of these where they are wider; a message for each.

    Columns that the table does not have are ignored. Raises DefinitionError, and changes
    nothing, for a type that cannot hold all that the table's could, or is another one altogether.
    """
    table = open_table(path)
    if table is None:
        return []
    have = {f["name"].lower(): f for f in json.loads(table.schema().to_json())["fields"]}
    wider: dict[str, tuple[str, str]] = {}
    for field in map(field_of, columns):
        known = have.get(field["name"].lower())
        old, new = (known or field)["type"], field["type"]
        if not (isinstance(old, str) and isinstance(new, str)) or old == new:
            continue
        if not is_wider(new, old):
            raise DefinitionError(_refused(name, field["name"], old, new))
        wider[known["name"] if known else field["name"]] = (old, new)
    if wider:
        _rewrite(session, path, {column: new for column, (_, new) in wider.items()})
    size = bytes_of(path) if wider else 0
    return [
        f"column {column} is {_sql(new)} now, no longer {_sql(old)}: the table was rewritten, "
        f"{size:,} bytes"
        for column, (old, new) in wider.items()
    ]


def is_wider(new: str, old: str) -> bool:
    """Whether every value of a Delta type is a value of another one, too."""
    if old in _DIGITS and new in _DIGITS:
        return _ORDER.index(new) > _ORDER.index(old)
    if new == "double":
        return old in ("float", "byte", "short", "integer")
    into, known = _DECIMAL.fullmatch(new), _DECIMAL.fullmatch(old)
    if into is None or new == old or not (known or old in _DIGITS):
        return False
    precision, scale = map(int, into.groups())
    was, digits = map(int, known.groups()) if known else (_DIGITS[old], 0)
    return scale >= digits and precision - scale >= was - digits


def _refused(name: str, column: str, old: str, new: str) -> str:
    what = "is narrower" if is_wider(old, new) else "is another type"
    return (
        f"{name}: column {column} is {_sql(old)} in the table and declared as {_sql(new)}, which "
        f"{what} and cannot hold all its values. Declare {column} as {_sql(old)} or wider, or "
        "give the new column another name. Nothing was published."
    )


def _rewrite(session: SparkSession, path: str, types: Mapping[str, str]) -> None:
    table = DeltaTable(path)
    partition_by = table.metadata().partition_columns
    rows = read_version(session, path, table.version())
    if partition_by:
        rows = rows.hint("rebalance", *partition_by)
    cast = {column: F.col(quoted(column)).cast(_sql(kind)) for column, kind in types.items()}
    staged = stage(rows.withColumns(cast), path, NO_BATCH, partition_by)
    fields: list[dict[str, Any]] = json.loads(table.schema().to_json())["fields"]
    for field in fields:
        field["type"] = types.get(field["name"], field["type"])
    schema = Schema.from_json(json.dumps({"type": "struct", "fields": fields}))
    try:
        table.create_write_transaction(
            [*staged.added(data_change=False)],
            "overwrite",
            schema,
            partition_by=partition_by,
            commit_properties=ONCE,
        )
    except CommitFailedError as error:
        raise ConflictError(
            f"{path}: another program wrote while its columns were widened. Nothing was published; "
            "run again."
        ) from error
    except (DeltaError, OSError) as error:
        raise LakeError(f"{path} cannot be written: {error}. Nothing was published.") from error


def _sql(kind: str) -> str:
    return _SQL.get(kind, kind)
