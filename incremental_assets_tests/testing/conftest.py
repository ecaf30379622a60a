from incremental_assets.testing import lake

__all__ = ["lake"]
