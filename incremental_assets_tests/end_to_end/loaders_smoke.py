"""All four loaders, in a process of its own: what they left is printed as JSON."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import polars as pl
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from incremental_assets.loaders import (
    CDCLoader,
    DeltaDiffLoader,
    SequenceBasedLoader,
    TimestampBasedLoader,
    local_session,
    read_watermarks,
)
from incremental_assets.query import query
from incremental_assets.writes import SCD2


def run(folder: Path) -> dict[str, Any]:
    # On a server: a session of the user's own, which nothing was asked of yet.
    server = os.environ.get("SPARK_REMOTE")
    spark = SparkSession.builder.remote(server).getOrCreate() if server else local_session()
    source, ledger = folder / "source", folder / "ledger"
    source.mkdir()
    target = {name: folder / name for name in ("by time", "by number", "log", "versions", "copy")}
    found: dict[str, Any] = {"counts": []}
    for step in (1, 2):
        at = pl.datetime(2024, 5, 1, step, time_zone="UTC", time_unit="us")
        frame = pl.DataFrame({"id": [step, 9], "name": [f"n{step}", f"x{step}"]}).with_columns(
            at=at, seq=pl.col("id") + 10 * step, operation=pl.lit("UPDATE")
        )
        frame.write_parquet(source / f"{step}.parquet")
        copy = folder / f"copy{step}.parquet"
        frame.write_parquet(copy)
        options = {"primary_key": "id", "source_format": "parquet"}
        results = [
            TimestampBasedLoader(spark).load_incremental(
                source, target["by time"], ledger, "at", "by time", **options
            ),
            SequenceBasedLoader(spark).load_incremental(
                source, target["by number"], ledger, "seq", "by number"
            ),
            CDCLoader(spark).process_cdc(
                source, target["log"], ledger, "id", "log", sequence_column="seq"
            ),
            CDCLoader(spark).process_cdc(
                source, target["versions"], ledger, "id", "versions", sequence_column="seq",
                write=SCD2(),
            ),
        ]  # fmt: skip
        diff = DeltaDiffLoader(spark).detect_changes(
            copy, target["copy"], folder / "snapshot", "id", "copy", max_deleted_share=1.0
        )
        found["counts"].append([r.records_loaded for r in (*results, diff["result"])])
        found["counts"].append([diff[k].count() for k in ("inserts", "updates", "deletes")])
    for name, path in target.items():
        rows = query(DeltaTable(str(path))).select(pl.col("id", "name"))
        found[name] = sorted(list(row) for row in rows.rows())
    found["watermarks"] = read_watermarks(spark, ledger).count()
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(Path(sys.argv[1]))) + "\n")
