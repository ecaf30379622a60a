"""The Delta transaction of a batch, which makes its commit happen once, and a note."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Transaction:
    """The application (`app_id`), the batch number, and a note (JSON) for settling."""

    app_id: str
    number: int
    note: str
