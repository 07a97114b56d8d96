-- Called by: line_rate.rs. ?1 and ?2 are the limit and the key of a line.
-- Guarantees: until when the rate of the line is used up; no row if it is not.
SELECT used_until FROM workflow_line_rates WHERE limit_name = ?1 AND key = ?2
