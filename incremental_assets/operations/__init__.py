"""Manual operations on a lake; each leaves a record in the ledger."""
