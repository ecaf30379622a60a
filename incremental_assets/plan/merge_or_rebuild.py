"""Whether the changed rows of a day are merged into it, or the whole day is rebuilt."""

from __future__ import annotations

from typing import Literal

Way = Literal["merge", "rebuild"]

# Measured on two cores by `benchmarks/merge_or_rebuild.py`: of a million rows, a tenth of them is
# merged in 4.9 s and the day rebuilt in 5.4 s; below 200,000 rows neither way takes 2 s, and a
# rebuild has fewer steps.
SMALL_DAY = 200_000
MERGED_SHARE = 0.1


def merge_or_rebuild(changed: int, rows: int) -> tuple[Way, str]:
    """The way that takes less time, and the reason: `changed` rows, of a day that has `rows`."""
    if rows < SMALL_DAY:
        return "rebuild", f"a day of {rows:,} rows is rebuilt as fast as it is merged into"
    new = f"{changed:,} changed rows for a day of {rows:,}"
    if changed > MERGED_SHARE * rows:
        return "rebuild", f"{new} are more than {MERGED_SHARE:.0%}, so it is rebuilt"
    return "merge", f"{new} are at most {MERGED_SHARE:.0%}, so they are merged"
