"""The place of the loaders' tests, for a load under settings of somebody else."""

from incremental_assets_tests.loaders.conftest import place

__all__ = ["place"]
