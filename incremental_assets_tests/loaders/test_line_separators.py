"""Characters that some take for the end of a line (U+0085, U+2028) end no entry of a Delta log."""

from __future__ import annotations

import polars as pl
from deltalake import write_deltalake

from incremental_assets.loaders import CDCLoader
from incremental_assets_tests.loaders.conftest import Place


def test_such_a_character_in_statistics_of_a_source_or_in_a_partition_blocks_no_load(
    place: Place,
) -> None:
    types = {"id": pl.String, "name": pl.String, "operation": pl.String, "sequence_num": pl.Int64}
    loader = CDCLoader(place.spark, place.clock)
    for n, name in enumerate(("a\u0085b", "c\u2028d", "e"), start=1):
        event = {"id": str(n), "name": name, "operation": "INSERT", "sequence_num": n}
        rows = pl.DataFrame([event], schema=types)
        write_deltalake(str(place.source), rows, mode="append")
        done = loader.process_cdc(
            place.source, place.target, place.watermarks, ["id", "name"], "log", partition_by="name"
        )
        assert done.records_read == 1
