from __future__ import annotations

from incremental_assets.quality.rules import at_least, warn
from incremental_assets_tests.end_to_end.gated_shop.layers import made
from incremental_assets_tests.end_to_end.gated_shop.silver.warn import WARN as ORDERS

WARN = made("warn", ORDERS, *warn(at_least("amount", 0)))
