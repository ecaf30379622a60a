from __future__ import annotations

from incremental_assets_tests.end_to_end.gated_shop.bronze.fail_bronze import FAIL_BRONZE as LANDED
from incremental_assets_tests.end_to_end.gated_shop.layers import typed

FAIL_BRONZE = typed("fail_bronze", LANDED)
