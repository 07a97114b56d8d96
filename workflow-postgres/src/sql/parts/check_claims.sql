-- Called by: parts.rs, after lock_owners.sql and find_lost_claims.sql. $1 are the workers of this
-- process, $2 the versions that their rows had when the cached claims held. A version is NULL if it
-- is unknown or the batch relies on no cached claim.
-- Guarantees: `verdict` has one row. If `holds` is true, every claim on a run whose attempts the
-- batch records holds until the commit. If it is false, the parts that follow change nothing.
verdict AS MATERIALIZED (
    SELECT ARRAY(SELECT owned.id FROM owned) IS NOT NULL {none_lost} AND NOT EXISTS (
        SELECT FROM (SELECT unnest($1::uuid[]) AS id, unnest($2::text[]) AS version) AS known
        WHERE known.version IS NOT NULL
          AND known.version IS DISTINCT FROM (SELECT owned.version FROM owned WHERE owned.id = known.id)
    ) AS holds
)
-- Answers
(SELECT verdict.holds FROM verdict) AS holds
