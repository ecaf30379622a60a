from __future__ import annotations

from incremental_assets_tests.end_to_end.gated_shop.layers import made
from incremental_assets_tests.end_to_end.gated_shop.silver.warn_bronze import WARN_BRONZE as ORDERS

WARN_BRONZE = made("warn_bronze", ORDERS)
