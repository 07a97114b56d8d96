-- Called by: gate.rs, when the limits of a queue change. ?1 is the queue.
-- Guarantees: claims look again at every gate of the queue.
UPDATE workflow_turns SET full_until = NULL, open_at = 0
WHERE gate_id IN (SELECT id FROM workflow_gates WHERE queue = ?1)
