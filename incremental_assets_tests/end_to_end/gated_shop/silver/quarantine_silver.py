from __future__ import annotations

from incremental_assets.quality.rules import at_least, quarantine
from incremental_assets_tests.end_to_end.gated_shop.bronze.warn import WARN as LANDED
from incremental_assets_tests.end_to_end.gated_shop.layers import typed

QUARANTINE_SILVER = typed("quarantine_silver", LANDED, *quarantine(at_least("amount", 0)))
