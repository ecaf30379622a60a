from incremental_assets.retail.gold.sales_mart import SALES_MART

__all__ = ["SALES_MART"]
