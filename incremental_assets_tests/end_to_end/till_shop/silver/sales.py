from incremental_assets.retail.silver.sales import SALES

__all__ = ["SALES"]
