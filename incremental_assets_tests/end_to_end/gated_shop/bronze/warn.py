from __future__ import annotations

from incremental_assets.quality.rules import row_count, warn
from incremental_assets_tests.end_to_end.gated_shop.layers import landed

WARN = landed("warn", *warn(row_count(at_most=3)))
