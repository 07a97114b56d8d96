-- Called by: statistics.rs, at the end of a batch.
-- Guarantees: each of the steps has its lines, in place of older ones. A step that is new to its
-- version is left out if the version has $5 steps or more. Locks in the order of the rows.
INSERT INTO {schema}.workflow_source_lines AS s (workflow_name, version, step, lines)
SELECT n.workflow_name, n.version, n.step, n.lines
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS n(workflow_name, version, step, lines)
WHERE (SELECT count(*) FROM {schema}.workflow_source_lines AS of_version
       WHERE of_version.workflow_name = n.workflow_name AND of_version.version = n.version) < $5::bigint
   OR EXISTS (SELECT 1 FROM {schema}.workflow_source_lines AS known
              WHERE known.workflow_name = n.workflow_name AND known.version = n.version AND known.step = n.step)
ON CONFLICT (workflow_name, version, step) DO UPDATE SET lines = excluded.lines
WHERE s.lines <> excluded.lines
