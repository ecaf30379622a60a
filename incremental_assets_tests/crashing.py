"""Loads that die right after each thing they write, for tests that let them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.table import TableAlterer
from pyspark.sql.readwriter import DataFrameWriter

MOST = 200


class Killed(BaseException):
    """The process is gone: nothing in it can catch that."""


def attempts_until_one_survives(
    monkeypatch: pytest.MonkeyPatch, attempt: Callable[[], object]
) -> int:
    """Let the n-th attempt die after the n-th commit or staged folder; how many attempts it took.

    So each attempt settles what the one before left, and may die of that as well.
    """
    for number in range(1, MOST):
        with monkeypatch.context() as dying:
            _die_after(dying, number)
            try:
                attempt()
            except Killed:
                continue
        return number
    raise AssertionError(f"no load came to its end in {MOST} attempts")


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
    ledger = "incremental_assets.ledger.ledger.write_deltalake"
    dying.setattr(ledger, counted(_of(ledger)))
    dying.setattr(DataFrameWriter, "parquet", counted(DataFrameWriter.parquet))


def _of(name: str) -> Callable[..., Any]:
    from incremental_assets.ledger import ledger

    found: Callable[..., Any] = getattr(ledger, name.rpartition(".")[2])
    return found
