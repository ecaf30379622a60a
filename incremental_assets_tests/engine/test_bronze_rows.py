"""Which rows of bronze a batch reads."""

from __future__ import annotations

from datetime import UTC, datetime
from unittest.mock import Mock

import pytest

from incremental_assets.engine.batch import Batch
from incremental_assets.engine.bronze_rows import window_rows
from incremental_assets.errors import ConflictError
from incremental_assets.plan import Work
from incremental_assets.settings import Settings
from incremental_assets_tests.plan.ledgers import EMPTY, SALES


def test_bronze_that_is_gone_since_the_plan_is_named(settings: Settings) -> None:
    work, spark = Work("rebuild", "restate", {}), Mock()
    now = datetime(2017, 1, 10, 12, tzinfo=UTC)
    batch = Batch(SALES, 3, work, (), EMPTY, {}, settings, now, spark)

    with pytest.raises(
        ConflictError, match=r"silver/sales, batch 3: .* into bronze/events any more"
    ):
        window_rows(spark(), batch)
