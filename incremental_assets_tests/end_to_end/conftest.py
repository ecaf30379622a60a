from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from incremental_assets.settings import PROJECT_ROOT, Settings
from incremental_assets.spark.jars import jar_paths
from incremental_assets_tests.end_to_end.servers import connect_server
from incremental_assets_tests.end_to_end.shop import Shop


@pytest.fixture
def shop(tmp_path: Path, settings: Settings) -> Shop:
    Path(settings.landing).mkdir(parents=True, exist_ok=True)
    return Shop(tmp_path, settings)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One Spark Connect server for all tests that are not about starting Spark."""
    jars = jar_paths(PROJECT_ROOT / ".cache")
    with connect_server(tmp_path_factory.mktemp("connect"), jars) as url:
        yield url


@pytest.fixture
def warm_shop(shop: Shop, server: str) -> Shop:
    """A shop whose commands find a Spark that is running already."""
    shop.env["SPARK_REMOTE"] = server
    return shop
