from __future__ import annotations

from incremental_assets.quality.rules import at_least, warn
from incremental_assets_tests.end_to_end.gated_shop.bronze.warn import WARN as LANDED
from incremental_assets_tests.end_to_end.gated_shop.layers import typed

WARN = typed("warn", LANDED, *warn(at_least("amount", 0)))
