"""Measurements of whole processes against the script that tutorials show."""
