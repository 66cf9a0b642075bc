WITH lived AS (
  SELECT epoch_ms(at_ms)::DATE AS date, group_id, member_id, at_ms, kind, cause, client_id, client_host,
    client_software, coalesce(group_instance_id, concat_ws('@', client_id, client_host)) AS client
  FROM lives WHERE kind IN ('member_joined', 'member_left', 'member_expired', 'member_fenced')
), timed AS (
  SELECT *, CASE WHEN lag(kind) OVER w = 'member_joined' THEN at_ms - lag(at_ms) OVER w END AS lived_ms
  FROM lived WINDOW w AS (PARTITION BY group_id, client ORDER BY at_ms, kind)
), told AS (
  SELECT *, kind = 'member_expired'
    AND cause IN ('rebalance timeout', 'did not rejoin in time', 'did not join in time',
      'did not sync in time') AS missed FROM timed
), counted AS (
  SELECT date, group_id, client, count(*) FILTER (kind = 'member_joined') AS joined,
    count(*) FILTER (kind = 'member_left') AS "left", count(*) FILTER (kind = 'member_expired') AS expired,
    count(*) FILTER (kind = 'member_fenced') AS fenced,
    count(*) FILTER (kind <> 'member_joined' AND lived_ms < 600000) AS short_lives,
    count(*) FILTER (missed) AS missed_rebalances,
    arg_max(missed, struct_pack(at_ms, kind)) AS is_stuck
  FROM told GROUP BY ALL
), names AS (SELECT DISTINCT group_id, member_id, client FROM lived),
triggered AS (
  SELECT date, group_id, coalesce(client, member_id) AS client, count(*) AS triggered
  FROM rebalances LEFT JOIN names USING (group_id, member_id) WHERE member_id IS NOT NULL GROUP BY ALL
), waiting AS (
  SELECT date, group_id, duration_ms, unnest(waited_for) AS member_id FROM rebalances
), waited AS (
  SELECT date, group_id, coalesce(client, member_id) AS client, count(*) AS waited_for, sum(duration_ms) AS waited_ms,
    count(*) FILTER (duration_ms > 5000) AS waited_long
  FROM waiting LEFT JOIN names USING (group_id, member_id) GROUP BY ALL
), long AS (SELECT date, group_id, count(*) FILTER (duration_ms > 5000) AS long FROM rebalances GROUP BY ALL),
whose AS (
  SELECT group_id, client, arg_max(client_id, at_ms) AS client_id, arg_max(client_host, at_ms) AS client_host,
    arg_max(client_software, at_ms) AS client_software FROM lived GROUP BY ALL)
SELECT group_id, client, client_id, client_host, client_software, coalesce(joined, 0) AS joined,
  coalesce("left", 0) AS "left", coalesce(expired, 0) AS expired, coalesce(fenced, 0) AS fenced,
  coalesce(short_lives, 0) AS short_lives, coalesce(missed_rebalances, 0) AS missed_rebalances,
  coalesce(triggered, 0) AS triggered, coalesce(waited_for, 0) AS waited_for, coalesce(waited_ms, 0) AS waited_ms,
  coalesce(waited_long, 0) AS waited_long, coalesce(short_lives, 0) >= 6 AS is_flapping,
  coalesce(waited_long >= 3 AND waited_long >= 0.5 * long, false) AS is_slow,
  coalesce(is_stuck, false) AS is_stuck, date
FROM counted FULL JOIN triggered USING (date, group_id, client) FULL JOIN waited USING (date, group_id, client)
  LEFT JOIN long USING (date, group_id) LEFT JOIN whose USING (group_id, client)
