"""What makes a commit happen once: the batch number as its Delta transaction, and a note."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Transaction:
    """Who writes (`app_id`), the batch number, and a note (JSON) for healing."""

    app_id: str
    number: int
    note: str
