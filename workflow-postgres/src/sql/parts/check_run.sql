-- Called by: parts.rs instead of lock_owners.sql and check_claims.sql, in a batch that is one
-- attempt, and maybe the end or the park of its run. $1 is that run, $2 the epoch under which its
-- writer holds it. To lock one row is cheaper than to compare the rows of the workers.
-- Guarantees: if `holds` is true, the claim holds until the commit, because the run is locked. If
-- it is false, the parts that follow change nothing.
held AS MATERIALIZED (
    SELECT r.epoch = $2::bigint AND r.status = 'running' AS holds FROM {schema}.workflow_runs AS r WHERE r.id = $1::uuid
    FOR NO KEY UPDATE
)
-- Answers
COALESCE((SELECT held.holds FROM held), false) AS holds
