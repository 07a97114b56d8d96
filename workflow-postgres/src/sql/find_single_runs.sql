-- Called by: single.rs, with runs and their single keys, which this transaction has locked.
-- Guarantees: returns for each place in the list, from 1, whether the run exists and which run has
-- the key. Reads by index only.
SELECT s.place,
       (SELECT own.id FROM {schema}.workflow_runs AS own WHERE own.id = s.id) IS NOT NULL AS present,
       (SELECT held.id FROM {schema}.workflow_runs AS held
        WHERE held.workflow_name = s.workflow AND held.single_key = s.key AND held.single_until = s.until
          AND held.status IN ('pending', 'running', 'parked') AND (held.single_until = 'end' OR held.epoch = 0)
        LIMIT 1) AS holder
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS s(id, workflow, key, until, place)
