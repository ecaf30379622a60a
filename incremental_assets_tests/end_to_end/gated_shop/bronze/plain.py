from __future__ import annotations

from incremental_assets_tests.end_to_end.gated_shop.layers import landed

PLAIN = landed("plain")
