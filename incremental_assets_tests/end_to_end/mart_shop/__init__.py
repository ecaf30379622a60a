"""The retailer's tables that the report on daily sales is made of."""
