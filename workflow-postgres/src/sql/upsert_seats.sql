-- Called by: seat.rs, with steps that ask for seats, whose runs lock_runs.sql has locked and whose
-- lines lock_lines.sql has. The epoch is that which takes the seat, or NULL if the step waits;
-- the last array says when it asks again by itself.
-- Guarantees: a step that asks again in its line keeps its place. Others come after all of the
-- line, in their order, even if the clock is set back.
INSERT INTO {schema}.workflow_seats AS s (run_id, step_key, limit_name, key, asked_at, epoch, asks_at)
SELECT n.run_id, n.step_key, n.limit_name, n.key,
       GREATEST(
           {now},
           (SELECT max(w.asked_at) FROM {schema}.workflow_seats AS w
            WHERE w.limit_name = n.limit_name AND w.key = n.key AND w.epoch IS NULL),
           (SELECT max(h.asked_at) FROM {schema}.workflow_seats AS h
            WHERE h.limit_name = n.limit_name AND h.key = n.key AND h.epoch IS NOT NULL)
       ) + n.number,
       n.epoch, n.asks_at
FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[])
    WITH ORDINALITY AS n(run_id, step_key, limit_name, key, epoch, asks_at, number)
ON CONFLICT (run_id, step_key) DO UPDATE SET
    asked_at = CASE WHEN s.limit_name = excluded.limit_name AND s.key = excluded.key THEN s.asked_at ELSE excluded.asked_at END,
    limit_name = excluded.limit_name, key = excluded.key, called_at = NULL, epoch = excluded.epoch,
    asks_at = excluded.asks_at
