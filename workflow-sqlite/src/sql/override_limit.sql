-- Called by: limit.rs. ?1 is the limit, ?2 its rule as JSON, or NULL to clear it.
-- Guarantees: the limit has a record with this rule of an operator. What a worker has declared
-- stays.
INSERT INTO workflow_limits (name, overridden) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET overridden = excluded.overridden
