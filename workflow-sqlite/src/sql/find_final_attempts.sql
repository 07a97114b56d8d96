-- Called by: attempt.rs, with attempts whose writes start children.
-- Guarantees: returns the places in the list of the attempts whose rows are final.
SELECT asked.key AS place
FROM json_each(?1) AS asked CROSS JOIN step_attempts AS a
    ON a.run_id = asked.value ->> 0 AND a.step_key = asked.value ->> 1 AND a.attempt = asked.value ->> 2
WHERE a.status <> 'running'
