"""From SQL to gold: PostgreSQL, Debezium's own connector, Kafka, bronze, silver and gold."""

from __future__ import annotations

import random

from incremental_assets_tests.debezium.shop import LONG, Shop
from incremental_assets_tests.thorough import thorough

FIRST, OTHER = LONG.format(1, 1), LONG.format(1000, 1000)


def test_what_sql_does_to_a_row_reaches_silver_history_and_gold(shop: Shop) -> None:
    shop.sql(f"INSERT INTO users VALUES (1, 'Ann', {FIRST}, now()), (2, 'Bob', 'short', NULL)")
    shop.sql("INSERT INTO orders VALUES (1, 1, 1.50), (2, 1, 2.25), (3, 2, 10)")
    shop.connect()  # which begins with a snapshot
    shop.arrive()
    shop.load()
    shop.require_equal()

    shop.sql("UPDATE users SET name = 'Anna' WHERE id = 1")  # the text is not in the log
    shop.sql("UPDATE users SET id = 3 WHERE id = 2")
    shop.sql("INSERT INTO users VALUES (4, 'Dan', NULL, NULL)")
    shop.sql("DELETE FROM users WHERE id = 4")
    shop.sql("DELETE FROM orders WHERE user_id = 2")
    shop.transaction(
        "INSERT INTO orders VALUES (4, 3, 7)",
        "UPDATE orders SET amount = 8 WHERE id = 4",
        "UPDATE orders SET amount = amount + 1",
    )
    shop.worker.restart()  # killed, wherever it is
    shop.connect()
    shop.sql("ALTER TABLE users ADD COLUMN city text")
    shop.sql("UPDATE users SET city = 'Basel' WHERE id = 3")
    shop.sql("ALTER TABLE users DROP COLUMN joined")
    shop.arrive()
    shop.load()
    shop.require_equal()
    versions = shop.lake.frame("silver/people").sort("id", "valid_from")
    found = versions.select("id", "name", "city", "is_current").rows()
    assert found == [
        (1, "Ann", None, False),
        (1, "Anna", None, True),
        (2, "Bob", None, False),
        (3, "Bob", None, False),
        (3, "Bob", "Basel", True),
        (4, "Dan", None, False),
    ]
    assert versions["bio"][0] == versions["bio"][1] == shop.users()[0][2]

    shop.sql("TRUNCATE users, orders")
    shop.sql("INSERT INTO users VALUES (5, 'Eve', NULL, NULL)")
    shop.arrive()
    shop.load()
    shop.require_equal()
    assert shop.users() == [(5, "Eve", None)]


@thorough(
    "debezium/test_from_sql.py, feeds/test_unchanged.py: a key that changes, and a long text of "
    "which no earlier version is known"
)
def test_of_a_key_that_changes_a_long_text_is_known_by_the_full_replica_identity(
    shop: Shop,
) -> None:
    shop.connect(snapshot_mode="no_data")
    for identity, key in {"DEFAULT": 1, "FULL": 2}.items():
        shop.sql(f"ALTER TABLE users REPLICA IDENTITY {identity}")
        shop.sql(f"INSERT INTO users VALUES ({key}, 'Ann', {FIRST}, now())")
        shop.sql(f"UPDATE users SET name = 'Anna' WHERE id = {key}")
        shop.sql(f"UPDATE users SET id = id + 10 WHERE id = {key}")
    shop.sql("INSERT INTO orders VALUES (1, 1, 1)")
    shop.arrive()
    shop.load()

    lake = shop.lake
    assert (
        lake.reasons("silver/users") == lake.reasons("silver/people") == [("no_earlier_version",)]
    )
    assert lake.rows("silver/users", "id", "name", "bio") == shop.users()[1:]


@thorough("debezium/test_from_sql.py: one that is killed between changes of each kind")
def test_a_connector_that_is_killed_amid_random_changes_loses_nothing(shop: Shop) -> None:
    chance = random.Random(2017)
    shop.sql("ALTER TABLE users REPLICA IDENTITY FULL")
    shop.sql("INSERT INTO orders VALUES (0, 0, 0)")
    shop.sql("INSERT INTO users VALUES (0, 'Ann', NULL, NULL)")
    shop.connect()
    shop.arrive()
    for turn in range(3):
        for step in range(25):
            shop.sql(change(chance))
            if step == 12:
                shop.load()  # with a part of what is there
        if turn < 2:
            shop.worker.restart()  # killed, as it is
            shop.connect()
    shop.arrive()
    shop.load()

    shop.require_equal()


def change(chance: random.Random) -> str:
    """A statement that changes some row of a few."""
    key, other = chance.randint(0, 4), chance.randint(0, 4)
    bio = chance.choice((FIRST, OTHER, "NULL", "'short'"))
    return chance.choice(
        (
            (
                f"INSERT INTO users VALUES ({key}, 'n{other}', {bio}, now()) ON CONFLICT (id) "
                "DO UPDATE SET bio = excluded.bio"
            ),
            f"UPDATE users SET name = 'n{other}' WHERE id = {key}",
            (
                f"UPDATE users SET id = {other} WHERE id = {key} AND NOT EXISTS "
                f"(SELECT 1 FROM users WHERE id = {other})"
            ),
            f"DELETE FROM users WHERE id = {key}",
            (
                f"INSERT INTO orders VALUES ({key}, {other}, {chance.randint(1, 99)}) "
                "ON CONFLICT (id) DO UPDATE SET amount = excluded.amount"
            ),
            f"DELETE FROM orders WHERE id = {key}",
        )
    )
