"""What people do to a lake beside loading it; each leaves a record in the ledger."""
