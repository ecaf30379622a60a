from incremental_assets.retail.silver.products import PRODUCTS

__all__ = ["PRODUCTS"]
