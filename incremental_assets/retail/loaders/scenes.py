"""The demo's scenes: what each loader is given, and how it is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from incremental_assets.loaders.cdc import CDCLoader
from incremental_assets.loaders.delta_diff import DeltaDiffLoader
from incremental_assets.loaders.result import LoadResult
from incremental_assets.loaders.sequence import SequenceBasedLoader
from incremental_assets.loaders.timestamp import TimestampBasedLoader
from incremental_assets.retail.loaders.data import (
    DeliveryNumber,
    land_customers,
    land_orders,
    land_payments,
    land_products,
)

Clock = Callable[[], datetime]
Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ScenePaths:
    """The paths of a scene's source and target, and of the ledger that all of them share."""

    folder: Path
    table: str

    @property
    def source(self) -> Path:
        return self.folder / self.table / "source"

    @property
    def target(self) -> Path:
        return self.folder / self.table / "target"

    @property
    def snapshot(self) -> Path:
        return self.folder / self.table / "snapshot"

    @property
    def watermarks(self) -> Path:
        return self.folder / "watermarks"


@dataclass(frozen=True, slots=True)
class Scene:
    """One loader at work: what lands, how it is loaded, and what of the target is shown."""

    table: str
    loader: str
    change: str
    columns: tuple[str, ...]
    land: Callable[[Path, DeliveryNumber], None]
    load: Callable[[SparkSession, ScenePaths, Clock, Log], LoadResult]


def load_orders(spark: SparkSession, paths: ScenePaths, clock: Clock, log: Log) -> LoadResult:
    return TimestampBasedLoader(spark, clock, log).load_incremental(
        paths.source,
        paths.target,
        paths.watermarks,
        "updated_at",
        paths.table,
        primary_key="order_id",
        lookback=timedelta(minutes=30),
        nulls="quarantine",
    )


def load_payments(spark: SparkSession, paths: ScenePaths, clock: Clock, log: Log) -> LoadResult:
    return SequenceBasedLoader(spark, clock, log).load_incremental(
        paths.source, paths.target, paths.watermarks, "payment_id", paths.table
    )


def load_customers(spark: SparkSession, paths: ScenePaths, clock: Clock, log: Log) -> LoadResult:
    return CDCLoader(spark, clock, log).process_cdc(
        paths.source, paths.target, paths.watermarks, "customer_id", paths.table
    )


def load_products(spark: SparkSession, paths: ScenePaths, clock: Clock, log: Log) -> LoadResult:
    found = DeltaDiffLoader(spark, clock, log).detect_changes(
        paths.source, paths.target, paths.snapshot, "sku", paths.table, paths.watermarks
    )
    return found["result"]


SCENES = (
    Scene(
        "orders",
        "TimestampBasedLoader",
        "Order 1 is paid. Order 4 has the watermark's own timestamp, order 5 is late but inside "
        "the lookback of 30 minutes: both are loaded. Order 6 is below it and is not read. "
        "Order 7 has no timestamp and is quarantined.",
        ("order_id", "status", "updated_at"),
        land_orders,
        load_orders,
    ),
    Scene(
        "payments",
        "SequenceBasedLoader",
        "The first load finds a gap, 4 to 5. Payment 4 comes later and fills half of it.",
        ("payment_id", "method"),
        land_payments,
        load_payments,
    ),
    Scene(
        "customers",
        "CDCLoader",
        "Ann is renamed, Bob is deleted, Dan is new. An event of Cleo has a lower number than "
        "the one that is loaded, and changes nothing.",
        ("customer_id", "name"),
        land_customers,
        load_customers,
    ),
    Scene(
        "products",
        "DeltaDiffLoader",
        "In the second snapshot figs are new, apples cost more, and dates are gone.",
        ("sku", "name", "price"),
        land_products,
        load_products,
    ),
)
