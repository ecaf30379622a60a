from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from pyspark.sql import SparkSession

from incremental_assets.settings import Settings
from incremental_assets.table import Table
from incremental_assets.testing import Lake as PlainLake
from incremental_assets_tests.feeds.world import Lake
from incremental_assets_tests.made_once import MadeOnce


@dataclass(frozen=True)
class Lakes:
    """Makes the lake of a test."""

    spark: SparkSession
    settings: Settings
    made_once: MadeOnce

    def __call__(self, *tables: Table) -> Lake:
        return Lake(self.spark, self.settings, *tables)

    def copy_of(self, make: Callable[..., Lake], *args: Any) -> Lake:
        """The lake that `make(lake, *args)` makes: made for the first test, copied for each."""

        def of_its_own(settings: Settings) -> Lake:
            return make(Lakes(self.spark, settings, self.made_once), *args)

        made = self.made_once.copied((make, repr(args)), self.settings, of_its_own)
        copy = self(*made.tables.values())
        copy.now = made.now
        copy.logged.extend(made.logged)
        return copy


@pytest.fixture
def lake(spark: SparkSession, settings: Settings, made_once: MadeOnce) -> Lakes:
    return Lakes(spark, settings, made_once)


@pytest.fixture(scope="module")
def module_lake(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, made_once: MadeOnce
) -> Lakes:
    """Makes a lake that is loaded once, and that the tests of a module only ask."""
    settings = PlainLake(spark, tmp_path_factory.mktemp("module")).settings
    return Lakes(spark, settings.replace(start_date=date(2017, 1, 1)), made_once)
