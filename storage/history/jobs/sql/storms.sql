WITH paused AS (
  SELECT *, CASE WHEN began_ms - lag(ended_ms) OVER w > $pause_ms_max THEN 1 ELSE 0 END AS calm
  FROM paired WINDOW w AS (PARTITION BY group_id ORDER BY began_ms)
), numbered AS (
  SELECT *, sum(calm) OVER (PARTITION BY group_id ORDER BY began_ms ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
    AS number
  FROM paused
), counted AS (
  SELECT *, count(*) OVER (PARTITION BY group_id, number) AS together FROM numbered
), stormy AS ( -- Most rebalances are in no storm: to count them costs little, to sum them up much.
  SELECT *, coalesce(cause, 'unknown') AS why FROM counted WHERE together >= $rebalances_min
), by_cause AS (
  SELECT group_id, number, why, count(*) AS rebalances FROM stormy GROUP BY group_id, number, why
), whys AS (
  SELECT group_id, number, map_from_entries(list_sort(list(struct_pack(cause := why, rebalances := rebalances)))) AS causes
  FROM by_cause GROUP BY group_id, number
), summed AS (
  SELECT group_id, number, min(began_ms) AS began_ms, arg_max(struct_pack(ended_ms := ended_ms), began_ms) AS final,
    count(*) AS rebalances,
    arg_min(struct_pack(cause, member_id, client_id, client_host, reason), began_ms) AS origin,
    count(DISTINCT member_id) AS triggers, sum(duration_ms) AS unstable_ms, sum(idle_member_ms) AS idle_member_ms
  FROM stormy GROUP BY group_id, number
)
SELECT group_id, began_ms, final.ended_ms AS ended_ms, rebalances, origin.cause AS cause, origin.member_id AS member_id,
  origin.client_id AS client_id, origin.client_host AS client_host, origin.reason AS reason, causes, triggers,
  unstable_ms, idle_member_ms, epoch_ms(began_ms)::DATE AS date
FROM summed JOIN whys USING (group_id, number)
WHERE began_ms < $until_ms AND coalesce(final.ended_ms, $until_ms) >= $since_ms
