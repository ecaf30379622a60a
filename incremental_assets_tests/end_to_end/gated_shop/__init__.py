"""A shop whose orders pass one gate after another: a chain of tables for each severity and layer."""
