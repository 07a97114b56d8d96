-- Called by: single.rs, with runs and their single keys: id, workflow, key and moment.
-- Guarantees: returns for each place in the list whether the run exists and which run has the key.
-- Reads by index only.
SELECT s.key AS place,
       EXISTS (SELECT 1 FROM workflow_runs AS own WHERE own.id = s.value ->> 0) AS present,
       (SELECT held.id FROM workflow_runs AS held
        WHERE held.workflow_name = s.value ->> 1 AND held.single_key = s.value ->> 2 AND held.single_until = s.value ->> 3
          AND held.single_key IS NOT NULL AND held.status IN ('pending', 'running', 'parked')
          AND (held.single_until = 'end' OR held.epoch = 0)) AS holder
FROM json_each(?1) AS s
