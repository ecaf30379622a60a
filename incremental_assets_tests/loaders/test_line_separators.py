"""Characters that some take for the end of a line (U+0085, U+2028) end no entry of a Delta log."""

from __future__ import annotations

import polars as pl
from deltalake import write_deltalake

from incremental_assets.loaders import CDCLoader, SequenceBasedLoader
from incremental_assets_tests.loaders.conftest import Place


def test_a_partition_value_with_such_a_character_blocks_no_load(place: Place) -> None:
    types = {"id": pl.Int64, "seq": pl.Int64, "city": pl.String}
    loader = SequenceBasedLoader(place.spark, place.clock)
    read = []
    for seq, city in enumerate(("a\u0085b", "c\u2028d"), start=1):
        place.land([{"id": seq, "seq": seq, "city": city}], types)
        done = loader.load_incremental(
            **place.paths,
            sequence_column="seq",
            table_name="orders",
            primary_key="id",
            partition_by=["city"],
        )
        read.append(done.records_read)

    assert read == [1, 1]


def test_a_delta_source_with_such_a_character_in_its_statistics_is_read(place: Place) -> None:
    types = {"id": pl.String, "name": pl.String, "operation": pl.String, "sequence_num": pl.Int64}
    loader = CDCLoader(place.spark, place.clock)
    for n in (1, 2):
        event = {"id": str(n), "name": "a\u0085b", "operation": "INSERT", "sequence_num": n}
        rows = pl.DataFrame([event], schema=types)
        write_deltalake(str(place.source), rows, mode="append")
        done = loader.process_cdc(place.source, place.target, place.watermarks, "id", "log")
        assert done.records_read == 1
