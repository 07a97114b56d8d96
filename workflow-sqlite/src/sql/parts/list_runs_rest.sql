-- Called by: scan.rs, as the end of list_runs.sql. NULL sets no condition. Names are compared with
-- patterns of GLOB. Lists are JSON.
-- Guarantees: the order of the source, and stops at ?6 runs: SQLite reads the source as the outer
-- loop, because it has a limit.
) AS s CROSS JOIN workflow_runs AS r ON r.id = s.id LEFT JOIN workflow_lanes AS l ON l.id = r.lane_id
WHERE (?7 IS NULL OR r.status IN (SELECT value FROM json_each(?7)))
  AND (?8 IS NULL OR EXISTS (SELECT 1 FROM json_each(?8) AS p WHERE r.workflow_name GLOB p.value))
  AND (?9 IS NULL OR NOT EXISTS (SELECT 1 FROM json_each(?9) AS p WHERE r.workflow_name GLOB p.value))
  AND (?10 IS NULL OR EXISTS (SELECT 1 FROM json_each(?10) AS p WHERE l.queue GLOB p.value))
  AND (?11 IS NULL OR NOT EXISTS (SELECT 1 FROM json_each(?11) AS p WHERE l.queue GLOB p.value))
  AND (?12 IS NULL OR EXISTS (SELECT 1 FROM json_each(?12) AS p WHERE l.version GLOB p.value))
  AND (?13 IS NULL OR NOT EXISTS (SELECT 1 FROM json_each(?13) AS p WHERE l.version GLOB p.value))
  AND (?14 IS NULL OR l.gate <> '' AND EXISTS (SELECT 1 FROM json_each(?14) AS p WHERE l.gate GLOB p.value))
  AND (?15 IS NULL OR l.gate = '' OR NOT EXISTS (SELECT 1 FROM json_each(?15) AS p WHERE l.gate GLOB p.value))
  AND (?16 IS NULL OR EXISTS (SELECT 1 FROM json_each(?16) AS p WHERE r.key GLOB p.value))
  AND (?17 IS NULL OR NOT EXISTS (SELECT 1 FROM json_each(?17) AS p WHERE r.key GLOB p.value))
  AND (?18 IS NULL OR NOT EXISTS (
      SELECT 1 FROM json_each(?18) AS asked
      WHERE (asked.value ->> 'negated') = EXISTS (
          SELECT 1 FROM json_each(asked.value, '$.values') AS wanted
          CROSS JOIN workflow_tags AS t
              ON t.name = asked.value ->> 'name' AND t.value = wanted.value AND t.run_id = r.id
      )
  ))
  AND (?19 IS NULL OR r.parent_run_id IN (SELECT value FROM json_each(?19)))
  AND (?20 IS NULL OR r.parent_run_id IS NULL OR r.parent_run_id NOT IN (SELECT value FROM json_each(?20)))
  AND (?21 IS NULL OR r.worker_id IN (SELECT value FROM json_each(?21)))
  AND (?22 IS NULL OR r.worker_id IS NULL OR r.worker_id NOT IN (SELECT value FROM json_each(?22)))
  AND (?23 IS NULL OR r.created_at >= ?23) AND (?24 IS NULL OR r.created_at < ?24)
  AND (?25 IS NULL OR r.completed_at >= ?25) AND (?26 IS NULL OR r.completed_at < ?26)
  AND (?27 IS NULL OR (r.paused_at IS NOT NULL) = ?27)
  AND (?28 IS NULL OR r.status IN ('pending', 'parked') AND r.paused_at IS NULL AND r.available_at <= ?28)
  AND (?29 IS NULL OR NOT (r.status IN ('pending', 'parked') AND r.paused_at IS NULL AND r.available_at <= ?29))
  AND (?30 IS NULL OR r.status = 'pending' AND r.available_at > ?30)
  AND (?31 IS NULL OR NOT (r.status = 'pending' AND r.available_at > ?31))
  AND (?32 IS NULL OR (r.cancel_requested_at IS NOT NULL AND r.status IN ('pending', 'running', 'parked')) = ?32)
  AND (?33 IS NULL OR (r.crashes > 0 AND r.status IN ('pending', 'running', 'parked')) = ?33)
  AND (?34 IS NULL OR (r.attempt > 1) = ?34)
  AND (?35 IS NULL OR (r.parent_run_id IS NOT NULL) = ?35)
  AND (?36 IS NULL OR (r.status = 'parked' AND r.error IS NOT NULL) = ?36)
  AND (?37 IS NULL OR r.completed_at - r.started_at >= ?37) AND (?38 IS NULL OR r.completed_at - r.started_at < ?38)
  AND (?39 IS NULL OR (
      r.status IN ('pending', 'parked') AND r.paused_at IS NULL AND r.available_at <= ?40
      AND (l.queue, r.workflow_name, l.version) IN (
          SELECT u.value ->> 'queue', u.value ->> 'workflow', u.value ->> 'version' FROM json_each(?41) AS u
      )
  ) = ?39)
  AND (?42 IS NULL OR (r.paused_at IS NULL AND (
      r.status IN ('pending', 'parked') AND r.available_at <= ?43 AND EXISTS (
          SELECT 1 FROM json_each(?44) AS b
          WHERE b.value ->> 'queue' = l.queue AND coalesce(b.value ->> 'gate', l.gate) = l.gate
            AND (NOT b.value ->> 'only_new' OR r.epoch = 0)
      )
      OR r.status IN ('pending', 'running', 'parked') AND r.id IN (SELECT value FROM json_each(?45))
  )) = ?42)
LIMIT +?6
