from incremental_assets.retail.gold.daily_product_sales import DAILY_PRODUCT_SALES

__all__ = ["DAILY_PRODUCT_SALES"]
