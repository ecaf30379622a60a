-- Silver: the newest version of each sale, and the versions of each user.
--
-- Materialized views, because `create_auto_cdc_flow` refuses Delta: see `benchmarks/pipelines.py`.
-- In SQL, because the same mart by DataFrame calls (withColumn, drop, join) failed when it was
-- defined, with TABLE_OR_VIEW_NOT_FOUND: the tables that it reads are made later.

-- What the project's rules would put into quarantine is left out.
CREATE MATERIALIZED VIEW silver_sales PARTITIONED BY (dt) AS
WITH typed AS (
  SELECT
    order_id,
    user_id,
    store_id,
    product_id,
    try_cast(qty AS int) AS qty,
    try_cast(unit_price AS decimal(18, 4)) AS unit_price,
    try_cast(event_ts AS timestamp) AS event_ts,
    try_cast(arrival_ts AS timestamp) AS arrival_ts
  FROM bronze_events
),
versions AS (
  SELECT *, row_number() OVER (PARTITION BY order_id ORDER BY arrival_ts DESC) AS version
  FROM typed
  WHERE order_id IS NOT NULL AND event_ts IS NOT NULL AND qty >= 0 AND unit_price >= 0
)
SELECT * EXCEPT (version), to_date(event_ts) AS dt FROM versions WHERE version = 1;

CREATE MATERIALIZED VIEW silver_users PARTITIONED BY (dt) AS
WITH versions AS (
  SELECT
    after.* EXCEPT (updated_at),
    to_timestamp(after.updated_at) AS updated_at,
    landing_day AS dt,
    row_number() OVER (PARTITION BY after.user_id, after.updated_at ORDER BY landing_day) AS copy
  FROM bronze_users
  WHERE after IS NOT NULL
)
SELECT * EXCEPT (copy) FROM versions WHERE copy = 1;
