from __future__ import annotations

from incremental_assets_tests.end_to_end.gated_shop.bronze.warn_bronze import WARN_BRONZE as LANDED
from incremental_assets_tests.end_to_end.gated_shop.layers import typed

WARN_BRONZE = typed("warn_bronze", LANDED)
