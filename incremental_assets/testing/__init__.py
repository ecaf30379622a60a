"""Tests of tables and loaders, also of your own: a pytest plugin with a lake and what to assert.

`pytest_plugins = ["incremental_assets.testing"]` in the `conftest.py` at the root of a project
gives its tests the fixtures `lake` and `spark`. Needs the extra `testing`: pytest.
"""

try:
    import pytest  # noqa: F401 - the requirement of this package alone
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "incremental_assets.testing needs pytest: install it, or the package with the extra "
        "`testing`."
    ) from error

from incremental_assets.testing.any_order import LandedBatch, assert_any_order
from incremental_assets.testing.fixtures import lake, spark
from incremental_assets.testing.lake import Lake
from incremental_assets.testing.rows import assert_rows_equal
from incremental_assets.testing.survival import Killed, assert_survives, kill_after_each_write

__all__ = [
    "Killed",
    "Lake",
    "LandedBatch",
    "assert_any_order",
    "assert_rows_equal",
    "assert_survives",
    "kill_after_each_write",
    "lake",
    "spark",
]
