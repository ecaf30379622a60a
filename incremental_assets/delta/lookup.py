"""Looking up a few keys in a large table: they are broadcast, so the table is not shuffled.

A join by key shuffles the keys of the whole table, however few are looked up. Counting those first
is a job of its own, so a small table is joined as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from incremental_assets.delta.read import DataFile
from incremental_assets.frames import Frames

# Above this size of the files, counting the keys takes less time than shuffling the table's.
LARGE_BYTES = 4 * 2**20
# Up to this many keys are broadcast.
FEW_KEYS = 100_000


def few_keys(frames: Frames, keys: DataFrame, files: Sequence[DataFile]) -> DataFrame | None:
    """The keys, to be broadcast, where they are few and the files large; else None.

    `keys` are computed here a first time, and cached; they should be cheap to make.
    """
    if sum(file.size for file in files) <= LARGE_BYTES:
        return None
    return sent_if_few(frames, keys)


def sent_if_few(frames: Frames, keys: DataFrame, most: int | None = None) -> DataFrame | None:
    """The keys, cached and to be broadcast, where they are few (FEW_KEYS, or `most`); else None."""
    cached = frames.cache(keys)
    return F.broadcast(cached) if cached.count() <= (most or FEW_KEYS) else None
