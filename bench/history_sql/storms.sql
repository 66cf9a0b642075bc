WITH paused AS (
  SELECT *, coalesce(began_ms - lag(ended_ms) OVER w > 30000, false)::INT AS calm FROM rebalances
  WINDOW w AS (PARTITION BY group_id ORDER BY began_ms)
), numbered AS (SELECT *, sum(calm) OVER (PARTITION BY group_id ORDER BY began_ms) AS n FROM paused)
SELECT group_id, min(began_ms) AS began_ms, arg_max(ended_ms, began_ms) AS ended_ms, count(*) AS rebalances,
  arg_min(cause, began_ms) AS cause, arg_min(member_id, began_ms) AS member_id,
  arg_min(client_id, began_ms) AS client_id, arg_min(client_host, began_ms) AS client_host,
  arg_min(reason, began_ms) AS reason, histogram(cause) AS causes, count(DISTINCT member_id) AS triggers,
  sum(duration_ms) AS unstable_ms, sum(idle_member_ms) AS idle_member_ms, epoch_ms(min(began_ms))::DATE AS date
FROM numbered GROUP BY group_id, n HAVING count(*) >= 5
