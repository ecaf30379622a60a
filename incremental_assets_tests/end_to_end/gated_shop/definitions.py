"""The project's definitions, and a sensor that asks for what a test wrote down."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import dagster as dg

import incremental_assets

REQUESTS = "GATED_SHOP_REQUESTS"


@dg.sensor(
    target=dg.AssetSelection.all(),
    minimum_interval_seconds=1,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def requested(context: dg.SensorEvaluationContext) -> Iterator[dg.RunRequest]:
    """A run for each file of the folder: `{"day": "2017-01-05", "assets": ["gold/orders"]}`."""
    for file in sorted(Path(os.environ[REQUESTS]).glob("*.json")):
        request = json.loads(file.read_text())
        yield dg.RunRequest(
            run_key=file.name,
            partition_key=request["day"],
            asset_selection=[dg.AssetKey(name.split("/")) for name in request["assets"]],
        )


defs = dg.Definitions.merge(incremental_assets.defs, dg.Definitions(sensors=[requested]))
