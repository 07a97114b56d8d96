-- Called by: gate.rs. $1 is the queue, $2 the gate, $3 how many runs it gives in one turn.
-- Guarantees: the gate has a row with this weight.
INSERT INTO {schema}.workflow_gates (queue, gate, weight) VALUES ($1, $2, $3)
ON CONFLICT (queue, gate) DO UPDATE SET weight = excluded.weight
