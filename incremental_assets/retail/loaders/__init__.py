"""The demo of the loaders: a shop's orders, payments, customers and products, in two deliveries."""
