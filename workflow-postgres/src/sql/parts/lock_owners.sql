-- Called by: parts.rs, in a batch that records attempts or whose claims the fence cache is to know.
-- $1 are the workers of this process.
-- Guarantees: locks the rows of the workers in the order of their ids, before any other row.
-- `owned` has the workers whose row no other transaction has changed since the statement began.
-- Until the commit, no running run is taken from them (ownership.rs).
seen AS MATERIALIZED (
    SELECT w.id, w.xmin::text || w.ctid::text AS version FROM {schema}.workflow_workers AS w WHERE w.id = ANY ($1::uuid[])
), locked AS MATERIALIZED (
    SELECT w.id, w.xmin::text || w.ctid::text AS version FROM {schema}.workflow_workers AS w WHERE w.id = ANY ($1::uuid[])
    ORDER BY w.id
    FOR UPDATE
), owned AS MATERIALIZED (
    SELECT locked.id, locked.version FROM locked WHERE locked.version = (SELECT seen.version FROM seen WHERE seen.id = locked.id)
)
-- Answers
ARRAY(SELECT (SELECT owned.version FROM owned WHERE owned.id = worker.id)
      FROM (SELECT unnest($1::uuid[]) AS id) AS worker) AS versions
