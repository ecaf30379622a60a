"""Which of Java's compilers and collectors an embedded Spark starts with.

The first compiler tier is soon done, and so is a load of a few thousand rows: it is over before
more pays off. One of a million rows takes half the time with all tiers, and a tenth less with a
collector that uses all cores. What a load reads is known before Spark starts, so the first load of
a process announces it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

SMALL: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
LARGE: Final = ("-XX:+UseParallelGC",)
LARGE_BYTES: Final = 24 * 2**20
"""With so many bytes to read, all tiers take no longer than the first alone: about 25 days of the
demo, or 100,000 lines of JSON."""
LARGE_ROWS: Final = 100_000
"""The same in rows. Parquet may hold a million of them in so many bytes."""
_announced: Final[list[bool]] = []


def announce(rows: int, bytes_read: Iterable[int]) -> None:
    """Announce the rows that a load is about to read, and the bytes of each table it touches."""
    _announced.append(rows >= LARGE_ROWS or max(bytes_read, default=0) >= LARGE_BYTES)


def java_options() -> tuple[str, ...]:
    """The options for Java, by what was announced so far; without anything it is a small load."""
    return LARGE if any(_announced) else SMALL
