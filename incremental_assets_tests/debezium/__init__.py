"""Tests from SQL in PostgreSQL to gold, by Debezium's own connector and Kafka."""
