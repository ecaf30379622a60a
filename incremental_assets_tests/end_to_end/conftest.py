from __future__ import annotations

from pathlib import Path

import pytest

from incremental_assets.settings import Settings
from incremental_assets_tests.end_to_end.shop import Shop


@pytest.fixture
def shop(tmp_path: Path, settings: Settings) -> Shop:
    Path(settings.landing).mkdir(parents=True, exist_ok=True)
    return Shop(tmp_path, settings)


@pytest.fixture
def warm_shop(shop: Shop, server: str) -> Shop:
    """A shop whose commands find a Spark that is running already, and load in their own process."""
    return shop.over(server)
