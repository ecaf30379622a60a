from incremental_assets.retail.bronze.products import PRODUCTS

__all__ = ["PRODUCTS"]
