-- Called by: statistics.rs, at the end of a batch.
-- Guarantees: each of the steps has its lines, in place of older ones. A step that is new to its
-- version is left out if the version has ?2 steps or more.
INSERT INTO workflow_source_lines (workflow_name, version, step, lines)
SELECT added.value ->> 0, added.value ->> 1, added.value ->> 2, added.value ->> 3
FROM jsonb_each(?1) AS added
WHERE (SELECT count(*) FROM workflow_source_lines AS of_version
       WHERE of_version.workflow_name = added.value ->> 0 AND of_version.version = added.value ->> 1) < ?2
   OR EXISTS (SELECT 1 FROM workflow_source_lines AS known
              WHERE known.workflow_name = added.value ->> 0 AND known.version = added.value ->> 1
                AND known.step = added.value ->> 2)
ON CONFLICT (workflow_name, version, step) DO UPDATE SET lines = excluded.lines
WHERE workflow_source_lines.lines <> excluded.lines
