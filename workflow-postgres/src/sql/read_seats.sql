-- Called by: seat.rs. $2 are limits, $3 a key for each, $4 the largest number of waiting steps for
-- each, $5 how long ago a call may have been, $6 and $7 the runs and keys of the steps that ask
-- now. In a batch it is a later statement than lock_lines.sql, so it sees every seat that was given
-- out before.
-- Guarantees: for each line, by its number from 1, all steps that have taken a seat, and the first
-- that wait and may be called. A parked run of a paused queue cannot go on, so its steps may not. A
-- step that asks long after its call counts as not called.
SELECT asked.number, s.run_id AS id, s.step_key, s.asked_at, s.called_at, s.asks_at, s.epoch, s.run_epoch, s.status
FROM unnest($2::text[], $3::text[], $4::bigint[]) WITH ORDINALITY AS asked(limit_name, key, most, number)
CROSS JOIN LATERAL (
    SELECT h.run_id, h.step_key, h.asked_at, h.called_at, h.asks_at, h.epoch, r.epoch AS run_epoch, r.status
    FROM {schema}.workflow_seats AS h
    CROSS JOIN LATERAL (
        SELECT o.epoch, o.status FROM {schema}.workflow_runs AS o WHERE o.id = h.run_id LIMIT 1
    ) AS r
    WHERE h.limit_name = asked.limit_name AND h.key = asked.key AND h.epoch IS NOT NULL
    UNION ALL (
        SELECT w.run_id, w.step_key, w.asked_at, CASE WHEN w.called_at > {now} - $5::bigint THEN w.called_at END AS called_at,
               w.asks_at, w.epoch, r.epoch AS run_epoch, r.status
        FROM {schema}.workflow_seats AS w
        CROSS JOIN LATERAL (
            SELECT o.epoch, o.status FROM {schema}.workflow_runs AS o
            WHERE o.id = w.run_id AND o.paused_at IS NULL
              AND (o.status = 'running' OR o.status = 'parked' AND (
                  SELECT q.paused_at FROM {schema}.workflow_queues AS q
                  WHERE q.queue = (SELECT l.queue FROM {schema}.workflow_lanes AS l WHERE l.id = o.lane_id)
              ) IS NULL)
            LIMIT 1
        ) AS r
        WHERE w.limit_name = asked.limit_name AND w.key = asked.key AND w.epoch IS NULL
          AND (w.called_at IS NULL OR w.called_at > {now} - $5::bigint
               OR (w.run_id, w.step_key) IN (SELECT unnest($6::uuid[]), unnest($7::text[])))
        ORDER BY w.asked_at
        LIMIT asked.most
    )
) AS s
