"""Loads that are killed after each thing that they write, and go on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.table import TableAlterer
from pyspark.sql.readwriter import DataFrameWriter

from incremental_assets.days import named
from incremental_assets.ledger import ledger
from incremental_assets.ledger.entry import Entry
from incremental_assets.testing.lake import Lake
from incremental_assets.testing.rows import difference

MOST = 200


class Killed(BaseException):
    """The process is gone: nothing in it can catch that."""


def assert_survives(lake: Lake, load: Callable[[Lake], object]) -> None:
    """Fail unless a load that is killed after each of its writes ends as if it had not been.

    `load` is called for copies of the lake, which stays as it is, such as
    `lambda lake: lake.load(RETURNS, "2017-01-05")`. It runs once undisturbed. In the other copy it
    is killed after its first write, run again, killed after the second one of that run, and so on
    until it ends; then all tables that it loaded must hold the same rows, and their quarantines.
    Raises AssertionError that names the table, and the rows that differ; also where no kill can
    make a difference: the undisturbed load loads no table of the lake, its batches are all empty,
    or it only holds a table, with nothing new in quarantine. Of a load that is to be empty,
    `kill_after_each_write` shows that it ends.
    """
    __tracebackhide__ = True
    calm, killed = lake.copy(), lake.copy()
    load(calm)
    _require_outcome(lake, calm)
    kills = kill_after_each_write(lambda: load(killed))
    if not kills:
        raise AssertionError("The load wrote nothing, so it was never killed: land rows for it.")
    if not calm.tables:
        raise AssertionError(
            "The load loaded no table of the lake, so there is nothing to compare. For what is "
            "written elsewhere, as by a loader, use kill_after_each_write, and compare it."
        )
    for table in calm.tables:
        for what, read in (
            (table.name, Lake.rows),
            (f"{table.name}: quarantine", Lake.quarantined),
        ):
            found = difference(read(killed, table), read(calm, table), table.key)
            if found:
                raise AssertionError(
                    f"{what} differs after a load that was killed {kills} times, and went on, from "
                    f"the same load undisturbed.\n{found}"
                )


def _require_outcome(lake: Lake, calm: Lake) -> None:
    """Raise AssertionError for a load without a row, or for a table that it held as it was.

    What has no batch, such as maintenance, is none.
    """
    __tracebackhide__ = True
    before, after = (each.lakehouse().ledger.view() for each in (lake, calm))
    read: list[Entry] = []
    for table in calm.tables:
        last = before.table(table.name).last_batch
        new = [entry for entry in after.table(table.name).loads if entry.batch > last]
        states = {entry.state for entry in new}
        read += new
        if "held" not in states or "committed" in states:
            continue
        if not difference(lake.quarantined(table), calm.quarantined(table)):
            raise AssertionError(
                f"{table.name}: the load undisturbed only held {named({e.day for e in new})}, so "
                "neither its rows nor its quarantine changed, and no kill can make a difference. "
                f"Land rows that pass its gate. What the load logged: {' / '.join(calm.log)}"
            )
    if read and not any(e.rows_read or e.rows_quarantined or e.touched for e in read):
        batches = ", ".join(dict.fromkeys(f"{e.table} {e.day}" for e in read))
        raise AssertionError(
            f"The load undisturbed read no row, and changed none ({batches}), so no kill can make "
            f"a difference. Land rows for it. What the load logged: {' / '.join(calm.log)}"
        )


def kill_after_each_write(attempt: Callable[[], object]) -> int:
    """Let the n-th attempt die after its n-th write, until one ends; how many of them died.

    So each attempt settles what the one before left, and may die of that as well. Writes are
    commits to Delta tables, the ledger's among them, and folders of files that are staged. The
    attempt dies by `Killed`, which no `except Exception` catches; its `finally` blocks run.
    """
    for number in range(1, MOST):
        with pytest.MonkeyPatch.context() as dying:
            _die_after(dying, number)
            try:
                attempt()
            except Killed:
                continue
        return number - 1
    raise AssertionError(f"No load came to its end in {MOST} attempts.")


def _die_after(dying: pytest.MonkeyPatch, number: int) -> None:
    """Everything that a load writes, in the order in which it is written."""
    done = 0

    def counted(write: Callable[..., Any]) -> Callable[..., Any]:
        def written(*args: Any, **named: Any) -> Any:
            nonlocal done
            result = write(*args, **named)
            done += 1
            if done == number:
                raise Killed
            return result

        return written

    for name in ("create_write_transaction", "delete", "restore"):
        dying.setattr(DeltaTable, name, counted(getattr(DeltaTable, name)))
    dying.setattr(DeltaTable, "create", staticmethod(counted(DeltaTable.create)))
    for name in ("add_columns", "set_table_properties"):
        dying.setattr(TableAlterer, name, counted(getattr(TableAlterer, name)))
    dying.setattr(ledger, "write_deltalake", counted(vars(ledger)["write_deltalake"]))
    dying.setattr(DataFrameWriter, "parquet", counted(DataFrameWriter.parquet))
    over_connect = sys.modules.get("pyspark.sql.connect.readwriter")
    if over_connect is not None:
        writer = over_connect.DataFrameWriter
        dying.setattr(writer, "parquet", counted(writer.parquet))
