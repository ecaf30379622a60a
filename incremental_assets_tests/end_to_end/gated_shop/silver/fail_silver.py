from __future__ import annotations

from incremental_assets.quality.rules import at_least, fail
from incremental_assets_tests.end_to_end.gated_shop.bronze.warn import WARN as LANDED
from incremental_assets_tests.end_to_end.gated_shop.layers import typed

FAIL_SILVER = typed("fail_silver", LANDED, *fail(at_least("amount", 0)))
