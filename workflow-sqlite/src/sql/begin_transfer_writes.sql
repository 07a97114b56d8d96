-- Called by: transfer.rs, first in a transaction that copies rows into the target.
-- Guarantees: the fence lets this transaction write, and no other one.
UPDATE workflow_transfer SET writes = 1 WHERE role = 'target'
