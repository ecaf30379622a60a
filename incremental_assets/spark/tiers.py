"""Which of Java's compilers an embedded Spark starts with.

The first tier compiles soon and is done: a load of a few thousand rows is over before more pays
off. One of a million rows takes half the time with all tiers. What a load reads is known before
Spark starts, so the first load of a process announces it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

FIRST_TIER: Final = "-XX:TieredStopAtLevel=1"
ALL_TIERS_FROM = 24 * 2**20
"""With so many bytes to read, all tiers take no longer than the first alone: about 25 days of the
demo, or 100,000 lines of JSON."""
_announced: Final[list[int]] = []


def announce(bytes_read: Iterable[int]) -> None:
    """Say how many bytes a load is about to read of each table that it touches."""
    _announced.append(max(bytes_read, default=0))


def java_tiers() -> tuple[str, ...]:
    """The options for Java, by what was announced so far; without anything it is a small load."""
    return () if any(size >= ALL_TIERS_FROM for size in _announced) else (FIRST_TIER,)
