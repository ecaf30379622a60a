"""A target on which somebody switched Delta's change data feed on is left as it is, with the remedy."""

from __future__ import annotations

import polars as pl
import pytest

from incremental_assets.errors import LakeError
from incremental_assets.ledger.ledger import Ledger
from incremental_assets.loaders import LoadResult, SequenceBasedLoader
from incremental_assets_tests.loaders.conftest import Place

SCHEMA = {"id": pl.Int64, "n": pl.Int64}


def test_nothing_is_claimed_or_written_until_the_feed_is_off(place: Place) -> None:
    def load() -> LoadResult:
        return SequenceBasedLoader(place.spark, place.clock).load_incremental(
            **place.paths, sequence_column="n", table_name="t", primary_key="id"
        )

    defaults = "spark.databricks.delta.properties.defaults.enableChangeDataFeed"
    place.spark.conf.set(defaults, "true")  # whoever makes a table in such a session
    try:
        rows = "SELECT 7L AS id, 7L AS n"
        place.spark.sql(f"CREATE TABLE delta.`{place.target}` USING delta AS {rows}")
    finally:
        place.spark.conf.unset(defaults)
    place.land([{"id": 1, "n": 1}], SCHEMA)

    with pytest.raises(LakeError, match=r"SET TBLPROPERTIES \(delta.enableChangeDataFeed = false"):
        load()

    assert place.rows("id") == [(7,)]
    assert Ledger(str(place.watermarks)).view().table("t").entries == ()
