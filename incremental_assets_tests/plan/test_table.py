"""What a table may be declared as."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from incremental_assets.changes.by_timestamp import Timestamp
from incremental_assets.errors import DefinitionError
from incremental_assets_tests.plan.ledgers import EVENTS


def test_a_table_of_the_lake_refuses_a_detector_that_only_the_loaders_know() -> None:
    timestamp: Any = Timestamp("updated_at")

    with pytest.raises(DefinitionError, match=r"takes Files\(\) or a subclass"):
        replace(EVENTS, changes=timestamp)
