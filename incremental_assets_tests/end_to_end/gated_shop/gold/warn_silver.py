from __future__ import annotations

from incremental_assets_tests.end_to_end.gated_shop.layers import made
from incremental_assets_tests.end_to_end.gated_shop.silver.warn_silver import WARN_SILVER as ORDERS

WARN_SILVER = made("warn_silver", ORDERS)
