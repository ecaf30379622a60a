"""A process that takes the files of a feed one by one and runs all loaders after each.

It may die at any moment: started again, it goes on with the file that it was at.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import polars as pl

from incremental_assets.loaders import (
    CDCLoader,
    DeltaDiffLoader,
    SequenceBasedLoader,
    TimestampBasedLoader,
    local_session,
)
from incremental_assets.writes import SCD2

ROUNDS = 4
ROWS = 6
APPENDED, NUMBERED, LIVE, VERSIONS, COPIED = "by time", "by number", "log", "versions", "copy"


def write_feed(folder: Path) -> list[pl.DataFrame]:
    """A file for each round: rows of a few keys, later and later, some of them deletes."""
    folder.mkdir(parents=True)
    frames = []
    for at in range(ROUNDS):
        numbers = range(at * ROWS, (at + 1) * ROWS)
        frame = pl.DataFrame(
            {
                "id": [n % 5 for n in numbers],
                "name": [f"name {n // 2}" for n in numbers],
                "operation": ["DELETE" if n % 7 == 6 else "UPDATE" for n in numbers],
                "seq": list(numbers),
            }
        ).with_columns(
            at=pl.datetime(2024, 5, 1, time_zone="UTC") + pl.duration(minutes=pl.col("seq") // 4)
        )
        frame.write_parquet(folder / f"{at}.parquet")
        frames.append(frame)
    return frames


def load_all(spark: Any, folder: Path) -> None:
    """Every loader once, over what lies in the source by now."""
    source, ledger = folder / "source", folder / "ledger"
    TimestampBasedLoader(spark).load_incremental(source, folder / APPENDED, ledger, "at", APPENDED)
    SequenceBasedLoader(spark).load_incremental(source, folder / NUMBERED, ledger, "seq", NUMBERED)
    log = CDCLoader(spark)
    log.process_cdc(source, folder / LIVE, ledger, "id", LIVE, sequence_column="seq")
    log.process_cdc(
        source, folder / VERSIONS, ledger, "id", VERSIONS, sequence_column="seq", write=SCD2()
    )
    newest = folder / "newest.parquet"
    latest = pl.concat([pl.read_parquet(f) for f in sorted(source.iterdir())])
    latest.sort("seq").unique("id", keep="last").sort("id").write_parquet(newest)
    DeltaDiffLoader(spark).detect_changes(
        newest, folder / COPIED, folder / "snapshot", "id", COPIED, max_deleted_share=1.0
    )


def run(folder: Path) -> None:
    spark = local_session()
    (folder / "source").mkdir(exist_ok=True)
    for file in sorted((folder / "feed").iterdir()):
        landed = folder / "source" / file.name
        if not landed.exists():
            shutil.copy(file, folder / "landing")
            (folder / "landing").rename(landed)
        load_all(spark, folder)
    spark.stop()


if __name__ == "__main__":
    run(Path(sys.argv[1]))
