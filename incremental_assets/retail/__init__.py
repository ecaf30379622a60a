"""The example that comes along: a shop's tables (`bronze`, `silver`, `gold`), `feed` and `reports`.

`loaders` is the demo of the loaders, on data of its own.
"""
