"""The watermarks of all tables as the classic watermark table shows them."""

from __future__ import annotations

import polars as pl

from incremental_assets.ledger.ledger import Ledger

_COLUMNS = ["table", "batch", "day", "state", "kind", "high", "recorded_at"]
_HAS_WATERMARK = (pl.col("high") != "") | (pl.col("kind") == "rewind")


def watermark_rows(ledger: Ledger) -> pl.DataFrame:
    """One row per table that has a watermark, by name.

    `table_name` (String), `watermark_value` (String: ISO 8601 UTC with six digits of microseconds
    and Z, or digits), `last_updated` (Datetime, us, UTC). It is the watermark of the table's newest
    published entry that has one; a table that was rewound to before its first load has none.
    Raises LedgerError if the ledger cannot be read.
    """
    snapshot = ledger.snapshot()
    files = [f for f in snapshot.files if f.may_hold("committed") and f.may_have_watermark]
    newest = snapshot.newest(files, (pl.col("state") == "committed") & _HAS_WATERMARK, _COLUMNS)
    return (
        newest.sort("table", "day")
        .unique("table", keep="last", maintain_order=True)
        .filter(pl.col("high") != "")
        .select(
            pl.col("table").alias("table_name"),
            pl.col("high").alias("watermark_value"),
            pl.col("recorded_at").alias("last_updated"),
        )
    )
