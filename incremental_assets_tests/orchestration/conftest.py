from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest

from incremental_assets_tests.alerts.receiver import Receiver, receiver


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as made:
        yield made
