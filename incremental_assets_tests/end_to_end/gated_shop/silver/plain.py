from __future__ import annotations

from incremental_assets_tests.end_to_end.gated_shop.bronze.plain import PLAIN as LANDED
from incremental_assets_tests.end_to_end.gated_shop.layers import typed

PLAIN = typed("plain", LANDED)
