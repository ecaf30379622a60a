"""The example that comes along: a shop's tables (`bronze`, `silver`, `gold`) and its `feed`."""
