-- Called by: wait.rs. ?1-?4 are a lane and its gate, which is empty for none, ?5 is the id of a run
-- and ?6 a number. ?7 has one array per rank: the number of the rank, the latest due time to read,
-- and the due time that ties with the run. The smaller id wins a tie.
-- Guarantees: counts the due runs of the lane that are claimed before the run, by the index of due
-- runs and to at most the number.
SELECT count(*)
FROM (
    SELECT 1
    FROM workflow_lanes AS l
    CROSS JOIN json_each(?7) AS known
    CROSS JOIN workflow_runs AS r INDEXED BY workflow_runs_due
    WHERE l.queue = ?1 AND l.workflow_name = ?2 AND l.version = ?3 AND l.gate = ?4
      AND r.lane_id = l.id AND r.rank = known.value ->> 0 AND r.available_at <= known.value ->> 1
      AND r.status IN ('pending', 'parked') AND r.paused_at IS NULL
      AND (+r.available_at < known.value ->> 2 OR +r.id < ?5)
    LIMIT +?6
)
