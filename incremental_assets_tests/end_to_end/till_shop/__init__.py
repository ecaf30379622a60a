"""Three of the retailer's tables, one of each layer: what a command does with one it does with all."""
