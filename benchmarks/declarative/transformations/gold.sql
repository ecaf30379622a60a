-- Gold: each sale with its total price and the newest version of its user.
CREATE MATERIALIZED VIEW sales_mart PARTITIONED BY (dt) AS
WITH versions AS (
  SELECT *, row_number() OVER (PARTITION BY user_id ORDER BY updated_at DESC) AS version
  FROM silver_users
),
newest AS (
  SELECT * EXCEPT (version, dt, updated_at) FROM versions WHERE version = 1
)
SELECT *, qty * unit_price AS total_price FROM silver_sales LEFT JOIN newest USING (user_id);
