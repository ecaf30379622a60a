from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from incremental_assets.orchestration.resources import SparkResource
from incremental_assets.settings import Settings
from incremental_assets_tests.databases.conftest import database, postgresql
from incremental_assets_tests.end_to_end.shop import TILL, Shop

__all__ = ["database", "postgresql"]


@pytest.fixture
def shop(tmp_path: Path, settings: Settings) -> Shop:
    Path(settings.landing).mkdir(parents=True, exist_ok=True)
    return Shop(tmp_path, settings)


@pytest.fixture
def here(shop: Shop, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A shop whose runs that are asked for in this process load with its Spark."""
    monkeypatch.setattr(SparkResource, "session", lambda *_: spark)
    return shop


@pytest.fixture
def till(here: Shop) -> Shop:
    """The same with one table of each layer."""
    return here.of(TILL)


@pytest.fixture
def warm_shop(shop: Shop, server: str) -> Shop:
    """A shop whose commands find a Spark that is running already, and load in their own process."""
    return shop.over(server)


@pytest.fixture
def pictures(pytestconfig: pytest.Config) -> Path | None:
    """The folder for the pictures of the documentation, where this run is to take them."""
    folder: Path | None = pytestconfig.getoption("--pictures")
    return folder and folder.absolute()
