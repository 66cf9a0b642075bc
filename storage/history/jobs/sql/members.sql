-- A consumer is known by its instance id, else by client id and host: its member ids change with every life. What a day
-- says depends on that day and the one before, so that a day made anew says the same.
WITH timed AS ( -- One consumer has one life at a time, so that a going ends what the coming before it began.
  SELECT *, CASE WHEN lag(kind) OVER w = 'member_joined' THEN at_ms - lag(at_ms) OVER w END AS lived_ms,
    kind = 'member_expired' AND coalesce(cause IN ($missed_causes), false) AS is_missed
  FROM lives WINDOW w AS (PARTITION BY group_id, client ORDER BY at_ms, kind)
), lived AS (
  SELECT date, group_id, client, count_if(kind = 'member_joined') AS joined, count_if(kind = 'member_left') AS "left",
    count_if(kind = 'member_expired') AS expired, count_if(kind = 'member_fenced') AS fenced,
    count_if(kind IN ($gone) AND lived_ms < $short_life_ms) AS short_lives, count_if(is_missed) AS missed_rebalances,
    arg_max(is_missed, struct_pack(at_ms, kind)) AS is_stuck
  FROM timed WHERE at_ms >= $since_ms AND at_ms < $until_ms GROUP BY date, group_id, client
), consumers AS (
  SELECT DISTINCT group_id, member_id, client FROM lives
), triggered AS ( -- The member id itself where it came before events are known, and is still there.
  SELECT date, group_id, coalesce(client, member_id) AS client, count(*) AS triggered
  FROM rebalances LEFT JOIN consumers USING (group_id, member_id) WHERE member_id IS NOT NULL
  GROUP BY date, group_id, coalesce(client, member_id)
), waiting AS (
  SELECT date, group_id, duration_ms, unnest(waited_for) AS member_id FROM rebalances
), waited AS (
  SELECT date, group_id, coalesce(client, member_id) AS client, count(*) AS waited_for, sum(duration_ms) AS waited_ms,
    count_if(duration_ms > $slow_ms) AS waited_long
  FROM waiting LEFT JOIN consumers USING (group_id, member_id) GROUP BY date, group_id, coalesce(client, member_id)
), all_long AS (
  SELECT date, group_id, count_if(duration_ms > $slow_ms) AS long_ones FROM rebalances GROUP BY date, group_id
), names AS (
  SELECT group_id, client, arg_max(client_id, struct_pack(at_ms, client_id)) AS client_id,
    arg_max(client_host, struct_pack(at_ms, client_host)) AS client_host,
    arg_max(client_software, struct_pack(at_ms, client_software)) AS client_software
  FROM lives GROUP BY group_id, client
)
SELECT group_id, client, client_id, client_host, client_software, coalesce(joined, 0) AS joined,
  coalesce("left", 0) AS "left", coalesce(expired, 0) AS expired, coalesce(fenced, 0) AS fenced,
  coalesce(short_lives, 0) AS short_lives, coalesce(missed_rebalances, 0) AS missed_rebalances,
  coalesce(triggered, 0) AS triggered, coalesce(waited_for, 0) AS waited_for, coalesce(waited_ms, 0) AS waited_ms,
  coalesce(waited_long, 0) AS waited_long, coalesce(short_lives, 0) >= $flaps_min AS is_flapping,
  coalesce(waited_long >= $slow_rebalances_min AND waited_long >= $slow_share * long_ones, false) AS is_slow,
  coalesce(is_stuck, false) AS is_stuck, date
FROM lived FULL JOIN triggered USING (date, group_id, client) FULL JOIN waited USING (date, group_id, client)
  LEFT JOIN all_long USING (date, group_id) LEFT JOIN names USING (group_id, client)
