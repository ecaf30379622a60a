from incremental_assets.retail.silver.users import USERS

__all__ = ["USERS"]
