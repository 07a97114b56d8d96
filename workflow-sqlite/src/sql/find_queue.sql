-- Called by: wait.rs. ?1 is a queue.
-- Guarantees: 1 if a run was ever started in the queue, else 0. Reads one entry of the index of
-- lanes.
SELECT EXISTS (SELECT 1 FROM workflow_lanes WHERE queue = ?1)
