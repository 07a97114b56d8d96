-- Called by: scan.rs, for the source of a list. An empty array or NULL sets no condition. Names are
-- compared with patterns of LIKE.
-- Guarantees: reads at most $3 rows of the source, in the order of the scan, and stops at $6 runs.
-- Reads no payload, and no error above a size.
WITH asked AS (SELECT $4::text AS name, $5::text AS value)
SELECT r.id, r.workflow_name, l.version, l.queue, l.gate, r.status, '' AS input, NULL::text AS output,
       CASE WHEN octet_length(r.error) <= {error_bytes} THEN r.error END AS error,
       coalesce(octet_length(r.error) > {error_bytes}, false) AS is_error_long,
       r.key, r.available_at, r.rank, r.worker_id,
       r.epoch, r.wakes, r.crashes, r.lone_crashes, r.attempt, r.generation, r.depth, r.parent_run_id, r.parent_step_key,
       r.on_parent_end, r.deadline_at, r.cancel_requested_at, r.paused_at, r.created_at, r.started_at, r.completed_at,
       r.tags, r.single_key, r.single_until, r.trace
FROM ({source}) AS s
CROSS JOIN LATERAL (SELECT own.* FROM {schema}.workflow_runs AS own WHERE own.id = s.id LIMIT 1) AS r
LEFT JOIN LATERAL (
    SELECT lane.queue, lane.version, lane.gate FROM {schema}.workflow_lanes AS lane WHERE lane.id = r.lane_id LIMIT 1
) AS l ON true
WHERE ($7::text[] IS NULL OR r.status = ANY ($7))
  AND (cardinality($8::text[]) = 0 OR r.workflow_name LIKE ANY ($8)) AND NOT r.workflow_name LIKE ANY ($9::text[])
  AND (cardinality($10::text[]) = 0 OR l.queue LIKE ANY ($10))
  AND NOT coalesce(l.queue LIKE ANY ($11::text[]), false)
  AND (cardinality($12::text[]) = 0 OR l.version LIKE ANY ($12))
  AND NOT coalesce(l.version LIKE ANY ($13::text[]), false)
  AND (cardinality($14::text[]) = 0 OR nullif(l.gate, '') LIKE ANY ($14))
  AND NOT coalesce(nullif(l.gate, '') LIKE ANY ($15::text[]), false)
  AND (cardinality($16::text[]) = 0 OR r.key LIKE ANY ($16)) AND NOT coalesce(r.key LIKE ANY ($17::text[]), false)
  AND ($18::text IS NULL OR NOT EXISTS (
      SELECT 1 FROM json_to_recordset($18::json) AS asked (name text, "values" json, negated boolean)
      WHERE asked.negated = EXISTS (
          SELECT 1
          FROM json_array_elements_text(asked."values") AS wanted (value)
          CROSS JOIN LATERAL (
              SELECT 1 FROM {schema}.workflow_tags AS t
              WHERE t.name = asked.name AND t.value = wanted.value AND t.run_id = r.id LIMIT 1
          ) AS found
      )
  ))
  AND (cardinality($19::uuid[]) = 0 OR r.parent_run_id = ANY ($19))
  AND NOT coalesce(r.parent_run_id = ANY ($20::uuid[]), false)
  AND (cardinality($21::uuid[]) = 0 OR r.worker_id = ANY ($21))
  AND NOT coalesce(r.worker_id = ANY ($22::uuid[]), false)
  AND ($23::bigint IS NULL OR r.created_at >= $23) AND ($24::bigint IS NULL OR r.created_at < $24)
  AND ($25::bigint IS NULL OR r.completed_at >= $25) AND ($26::bigint IS NULL OR r.completed_at < $26)
  AND ($27::boolean IS NULL OR (r.paused_at IS NOT NULL) = $27)
  AND ($28::bigint IS NULL
       OR r.status IN ('pending', 'parked') AND r.paused_at IS NULL AND r.available_at <= $28)
  AND ($29::bigint IS NULL
       OR NOT (r.status IN ('pending', 'parked') AND r.paused_at IS NULL AND r.available_at <= $29))
  AND ($30::bigint IS NULL OR r.status = 'pending' AND r.available_at > $30)
  AND ($31::bigint IS NULL OR NOT (r.status = 'pending' AND r.available_at > $31))
  AND ($32::boolean IS NULL OR (r.cancel_requested_at IS NOT NULL AND r.status IN ('pending', 'running', 'parked')) = $32)
  AND ($33::boolean IS NULL OR (r.crashes > 0 AND r.status IN ('pending', 'running', 'parked')) = $33)
  AND ($34::boolean IS NULL OR (r.attempt > 1) = $34)
  AND ($35::boolean IS NULL OR (r.parent_run_id IS NOT NULL) = $35)
  AND ($36::boolean IS NULL OR (r.status = 'parked' AND r.error IS NOT NULL) = $36)
  AND ($37::bigint IS NULL OR r.completed_at - r.started_at >= $37)
  AND ($38::bigint IS NULL OR r.completed_at - r.started_at < $38)
  AND ($39::boolean IS NULL OR (
      r.status IN ('pending', 'parked') AND r.paused_at IS NULL AND r.available_at <= $40::bigint
      AND (l.queue, r.workflow_name, l.version) IN (
          SELECT u.queue, u.workflow, u.version
          FROM json_to_recordset($41::text::json) AS u (queue text, workflow text, version text)
      )
  ) = $39)
  AND ($42::boolean IS NULL OR (r.paused_at IS NULL AND (
      r.status IN ('pending', 'parked') AND r.available_at <= $43::bigint AND EXISTS (
          SELECT 1 FROM json_to_recordset($44::text::json) AS b (queue text, gate text, only_new boolean)
          WHERE b.queue = l.queue AND coalesce(b.gate, l.gate) = l.gate AND (NOT b.only_new OR r.epoch = 0)
      )
      OR r.status IN ('pending', 'running', 'parked') AND r.id = ANY ($45::uuid[])
  )) = $42)
ORDER BY s.id {order}
LIMIT $6::bigint
