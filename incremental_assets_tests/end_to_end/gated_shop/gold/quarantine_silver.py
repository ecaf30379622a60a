from __future__ import annotations

from incremental_assets_tests.end_to_end.gated_shop.layers import made
from incremental_assets_tests.end_to_end.gated_shop.silver.quarantine_silver import (
    QUARANTINE_SILVER as ORDERS,
)

QUARANTINE_SILVER = made("quarantine_silver", ORDERS)
