-- Called by: limit.rs. $1 is the limit, $2 its rule as JSON.
-- Guarantees: the limit has a record with this declared rule. What an operator has set stays.
INSERT INTO {schema}.workflow_limits (name, declared) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET declared = excluded.declared
