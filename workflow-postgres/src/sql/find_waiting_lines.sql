-- Called by: seat.rs. $1 and $2 are the limit and the key of a line, $3 the largest number.
-- Guarantees: the next lines in which a step waits, in their order, by one look into the index for
-- each.
WITH RECURSIVE line AS (
    (
        SELECT s.limit_name, s.key FROM {schema}.workflow_seats AS s
        WHERE s.epoch IS NULL AND (s.limit_name, s.key) > ($1::text, $2::text)
        ORDER BY s.limit_name, s.key
        LIMIT 1
    )
    UNION ALL
    SELECT n.limit_name, n.key
    FROM line AS l
    CROSS JOIN LATERAL (
        SELECT s.limit_name, s.key FROM {schema}.workflow_seats AS s
        WHERE s.epoch IS NULL AND (s.limit_name, s.key) > (l.limit_name, l.key)
        ORDER BY s.limit_name, s.key
        LIMIT 1
    ) AS n
)
SELECT line.limit_name, line.key FROM line LIMIT $3
