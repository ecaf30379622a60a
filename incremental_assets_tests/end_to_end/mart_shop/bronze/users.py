from incremental_assets.retail.bronze.users import USERS

__all__ = ["USERS"]
