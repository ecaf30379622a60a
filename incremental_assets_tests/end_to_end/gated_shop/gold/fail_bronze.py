from __future__ import annotations

from incremental_assets.quality.rules import fail, row_count
from incremental_assets_tests.end_to_end.gated_shop.layers import made
from incremental_assets_tests.end_to_end.gated_shop.silver.fail_bronze import FAIL_BRONZE as ORDERS

FAIL_BRONZE = made("fail_bronze", ORDERS, *fail(row_count(at_least=1)))
