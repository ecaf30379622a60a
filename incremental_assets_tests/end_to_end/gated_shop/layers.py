"""What the tables of a layer have in common; each says its own rules only."""

from __future__ import annotations

from pyspark.sql import DataFrame

from incremental_assets.quality.contract import Contract
from incremental_assets.quality.rules import Rule
from incremental_assets.quality.types import Instant, Integer, Text
from incremental_assets.sources.landed_files import LandedFiles
from incremental_assets.table import SameDay, Table
from incremental_assets.writes import Append, Merge, ReplaceDay


def landed(name: str, *rules: Rule) -> Table:
    """The orders as they landed."""
    return Table(
        name=f"bronze/{name}",
        description="Orders as they landed.",
        reads=(LandedFiles("orders"),),
        day="at",
        rules=rules,
        write=Append(),
    )


def typed(name: str, upstream: Table, *rules: Rule) -> Table:
    """Each order once."""
    return Table(
        name=f"silver/{name}",
        description="Each order once.",
        reads=(SameDay(upstream),),
        key=("id",),
        day="at",
        schema=Contract(id=Text(required=True), amount=Integer(), at=Instant()),
        rules=rules,
        write=Merge(),
    )


def made(name: str, upstream: Table, *rules: Rule) -> Table:
    """Still a row per order, so that a row which came through can be seen."""
    return Table(
        name=f"gold/{name}",
        description="What each order brought.",
        reads=(SameDay(upstream),),
        key=("id",),
        rules=rules,
        write=ReplaceDay(),
        transform=_amounts,
    )


def _amounts(orders: DataFrame) -> DataFrame:
    return orders.select("dt", "id", "amount")
