-- Called by: system.rs. $1 is the name of the schema.
-- Guarantees: the tables and sequences of the engine on which this role lacks a right that workers
-- and clients need. The rights are those that docs/guide/security.md grants to the runtime role.
SELECT need.name, string_agg(need.verb, ', ' ORDER BY need.verb) AS rights
FROM (
    SELECT named.name, split.verb
    FROM (VALUES
        ('workflow_schema', 'SELECT'),
        ('workflow_runs', 'SELECT INSERT UPDATE DELETE'),
        ('workflow_queues', 'SELECT INSERT UPDATE'),
        ('workflow_limits', 'SELECT INSERT UPDATE'),
        ('workflow_bulk', 'SELECT INSERT UPDATE'),
        ('workflow_source_lines', 'SELECT INSERT UPDATE'),
        ('workflow_lanes', 'SELECT INSERT'),
        ('workflow_audit', 'SELECT INSERT'),
        ('workflow_gates', 'SELECT INSERT UPDATE'),
        ('workflow_turns', 'SELECT INSERT UPDATE'),
        ('workflow_gate_wakes', 'SELECT INSERT DELETE'),
        ('workflow_tags', 'SELECT INSERT DELETE'),
        ('workflow_lanes_id_seq', 'USAGE'),
        ('step_attempts', 'SELECT INSERT UPDATE DELETE'),
        ('workflow_signals', 'SELECT INSERT UPDATE DELETE'),
        ('workflow_event_waits', 'SELECT INSERT UPDATE DELETE'),
        ('workflow_workers', 'SELECT INSERT UPDATE DELETE'),
        ('workflow_schedules', 'SELECT INSERT UPDATE DELETE'),
        ('workflow_seats', 'SELECT INSERT UPDATE DELETE'),
        ('workflow_line_rates', 'SELECT INSERT UPDATE DELETE'),
        ('workflow_stats', 'SELECT INSERT UPDATE DELETE'),
        ('workflow_failures', 'SELECT INSERT UPDATE DELETE')
    ) AS named(name, verbs)
    CROSS JOIN LATERAL regexp_split_to_table(named.verbs, ' ') AS split(verb)
) AS need
CROSS JOIN LATERAL (
    SELECT c.oid, c.relkind
    FROM pg_catalog.pg_class AS c
    WHERE c.relnamespace = to_regnamespace($1) AND c.relname = need.name
    LIMIT 1
) AS found
WHERE NOT CASE WHEN found.relkind = 'S' THEN has_sequence_privilege(found.oid, need.verb)
               ELSE has_table_privilege(found.oid, need.verb) END
GROUP BY need.name
ORDER BY need.name
