-- Called by: transfer.rs, in the source.
-- Guarantees: the transfer has ended. Nothing changes if it had ended before.
UPDATE workflow_transfer SET ended_at = ?1 WHERE role = 'source' AND ended_at IS NULL
