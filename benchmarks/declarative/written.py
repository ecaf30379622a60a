"""What was written to a Delta table, by its log, and how two tables differ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

SALES = (
    pl.col("order_id", "user_id", "store_id", "product_id"),
    pl.col("qty").cast(pl.Int64),
    pl.col("unit_price").cast(pl.Decimal(18, 4)),
    pl.col("event_ts", "arrival_ts").cast(pl.Datetime("us", "UTC")),
)


@dataclass(frozen=True)
class Written:
    """The rows of the files that commits added, and for how many seconds no file was there."""

    rows: int
    empty: float


def version(table: Path) -> int:
    """The newest version of a table; -1 if there is none."""
    return max((int(file.stem) for file in _commits(table)), default=-1)


def written(table: Path, after: int) -> Written:
    """What the commits after a version did."""
    rows, empty, emptied = 0, 0.0, None
    for file in sorted(_commits(table)):
        if int(file.stem) <= after:
            continue
        actions = [json.loads(line) for line in file.read_text().splitlines()]
        at = next(_of(actions, "commitInfo"))["timestamp"] / 1000
        added = list(_of(actions, "add"))
        rows += sum(json.loads(add["stats"])["numRecords"] for add in added)
        if emptied is not None and added:
            empty, emptied = empty + at - emptied, None
        elif next(_of(actions, "commitInfo"))["operation"] == "TRUNCATE":
            emptied = at
    return Written(rows, empty)


def sales(table: Path) -> pl.DataFrame:
    """The columns of silver sales that both systems have, in the same types."""
    return pl.scan_delta(str(table)).select(*SALES).collect()


def rows_of(table: Path) -> pl.DataFrame:
    """All columns but those about the load."""
    return pl.scan_delta(str(table)).select(pl.exclude("^_.*$")).collect()


def unequal(one: pl.DataFrame, other: pl.DataFrame) -> int:
    """How many rows of either are not in the other; of the same rows, how many are repeated."""
    on = one.columns
    missing = [
        left.join(right, on=on, how="anti", nulls_equal=True).height
        for left, right in ((one, other), (other, one))
    ]
    return sum(missing) or abs(one.height - other.height)


def _commits(table: Path) -> Iterator[Path]:
    return (table / "_delta_log").glob("[0-9]*.json")


def _of(actions: list[dict[str, Any]], kind: str) -> Iterator[dict[str, Any]]:
    return (action[kind] for action in actions if kind in action)
