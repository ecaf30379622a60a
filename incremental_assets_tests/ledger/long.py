"""Ledgers with a long history, and what is read of them."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest
from deltalake import write_deltalake

from incremental_assets.ledger.entry import Entry, to_frame
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.ledger.snapshot import LedgerFile, LedgerSnapshot
from incremental_assets_tests.ledger.entries import USERS, append, entry

A_FILE = 50


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each file of a ledger that is read."""
    found: list[int] = []
    scan = LedgerSnapshot._read

    def counted(
        self: LedgerSnapshot, files: Sequence[LedgerFile], columns: Sequence[str]
    ) -> list[pl.DataFrame]:
        frames = scan(self, files, columns)
        found.extend(frame.height for frame in frames)
        return frames

    monkeypatch.setattr(LedgerSnapshot, "_read", counted)
    return found


def filled(path: str, entries: Sequence[Entry], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a ledger of many full files, with a few small ones at its end."""
    ledger = Ledger(path)
    ledger.view()
    for at in range(0, len(entries), A_FILE):
        write_deltalake(path, to_frame(entries[at : at + A_FILE]), mode="append")
    append(ledger, *(entry(1, "held", table=USERS) for _ in range(2)))
    sizes = sorted(file.size for file in ledger.snapshot().files)
    monkeypatch.setattr("incremental_assets.ledger.maintenance.SMALL_BYTES", sizes[1] + 1)
    ledger.compact()
