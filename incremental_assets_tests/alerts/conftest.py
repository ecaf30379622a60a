from __future__ import annotations

from collections.abc import Iterator

import pytest

from incremental_assets_tests.alerts.receiver import Receiver, receiver


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as made:
        yield made
