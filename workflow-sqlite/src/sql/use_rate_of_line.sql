-- Called by: line_rate.rs, in a batch that lets bodies begin. ?1 and ?2 are the limit and the
-- key of a line, ?3 is a time.
-- Guarantees: the rate of the line is used up until then.
INSERT INTO workflow_line_rates (limit_name, key, used_until) VALUES (?1, ?2, ?3)
ON CONFLICT (limit_name, key) DO UPDATE SET used_until = excluded.used_until
