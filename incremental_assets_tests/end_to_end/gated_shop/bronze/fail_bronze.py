from __future__ import annotations

from incremental_assets.quality.rules import fail, row_count
from incremental_assets_tests.end_to_end.gated_shop.layers import landed

FAIL_BRONZE = landed("fail_bronze", *fail(row_count(at_most=3)))
