WITH parts AS (
  SELECT date, group_id, coalesce(cause, 'unknown') AS cause, concat_ws('@', client_id, client_host) AS client,
    count(*) AS rebalances, sum(coalesce(duration_ms, known_until_ms - began_ms)) AS unstable_ms,
    -- The end of a group's last member leaves nobody who could be served.
    sum(CASE WHEN members = 0 THEN 0 ELSE coalesce(duration_ms, known_until_ms - began_ms) END) AS unstable_served_ms,
    sum(idle_member_ms) AS idle_member_ms, sum(moved) AS moved, min(began_ms) AS first_ms, max(began_ms) AS last_ms,
    max(members) AS members, max(group_type) AS group_type
  FROM rebalances JOIN (SELECT date, last_ms AS known_until_ms FROM known) USING (date)
  GROUP BY date, group_id, coalesce(cause, 'unknown'), concat_ws('@', client_id, client_host)
), by_cause AS (
  SELECT date, group_id, cause, sum(rebalances) AS rebalances FROM parts GROUP BY date, group_id, cause
), whys AS (
  SELECT date, group_id,
    map_from_entries(list_sort(list(struct_pack(cause := cause, rebalances := rebalances)))) AS causes
  FROM by_cause GROUP BY date, group_id
), by_client AS (
  SELECT date, group_id, client, sum(idle_member_ms) AS bill, sum(rebalances) AS rebalances,
    sum(unstable_ms) AS unstable_ms, sum(unstable_served_ms) AS unstable_served_ms, sum(moved) AS moved, min(first_ms) AS first_ms,
    max(last_ms) AS last_ms, max(members) AS members, max(group_type) AS group_type
  FROM parts GROUP BY date, group_id, client
), bills AS (
  SELECT date, group_id, max(group_type) AS group_type, sum(rebalances) AS rebalances, sum(unstable_ms) AS unstable_ms,
    sum(unstable_served_ms) AS unstable_served_ms,
    CASE WHEN sum(rebalances) > 1 THEN (max(last_ms) - min(first_ms)) // (sum(rebalances) - 1) END AS between_ms,
    sum(bill) AS idle_member_ms, sum(moved) AS moved, max(members) AS members,
    arg_max(client, struct_pack(bill := coalesce(bill, -1), client := client)) AS worst_client,
    max(bill) AS worst_idle_member_ms
  FROM by_client GROUP BY date, group_id
), comings AS (
  SELECT date, group_id, count_if(kind = 'member_joined') AS joined, count_if(kind IN ($gone)) AS gone,
    count_if(kind = 'member_expired') AS expired
  FROM lives WHERE at_ms >= $since_ms AND at_ms < $until_ms GROUP BY date, group_id
), expiries AS (
  SELECT date, group_id, sum(CASE WHEN kind = 'offsets_expired' THEN "count" END) AS offsets_expired,
    sum(CASE WHEN kind = 'offsets_expiring' THEN "count" END) AS offsets_expiring,
    min(CASE WHEN kind = 'offsets_expiring' THEN first_ms END) AS expires_ms
  FROM changes WHERE kind IN ('offsets_expired', 'offsets_expiring') AND at_ms >= $since_ms AND at_ms < $until_ms
  GROUP BY date, group_id
), committed AS (
  SELECT date, group_id, sum(commits) AS commits, sum(regressed) AS regressed, max(lag_max) AS lag_max
  FROM hours GROUP BY date, group_id
), found AS (
  SELECT date, group_id, group_type, rebalances, causes, unstable_ms, unstable_served_ms, last_ms - first_ms AS known_ms,
    -- Who commits without a coming or going for days had its members all the time.
    coalesce(served_ms, CASE WHEN commits > 0 THEN last_ms - first_ms ELSE 0 END) AS served_ms, between_ms,
    idle_member_ms, moved, joined, gone, expired, members, worst_client, worst_idle_member_ms,
    coalesce(commits, 0) AS commits, regressed, lag_max, offsets_expired, offsets_expiring, expires_ms
  FROM committed FULL JOIN bills USING (date, group_id) FULL JOIN whys USING (date, group_id)
    FULL JOIN comings USING (date, group_id) FULL JOIN expiries USING (date, group_id)
    LEFT JOIN served USING (date, group_id) JOIN known USING (date)
)
SELECT group_id, group_type, coalesce(rebalances, 0) AS rebalances, causes, coalesce(unstable_ms, 0) AS unstable_ms,
  known_ms, served_ms,
  CASE WHEN served_ms > 0 THEN greatest(0.0, 1 - coalesce(unstable_served_ms, 0) / served_ms) END AS availability,
  between_ms, coalesce(idle_member_ms, 0) AS idle_member_ms, coalesce(moved, 0) AS moved, coalesce(joined, 0) AS joined,
  coalesce(gone, 0) AS gone, coalesce(expired, 0) AS expired,
  (coalesce(joined, 0) + coalesce(gone, 0)) / greatest(members, 1) AS churn, worst_client, worst_idle_member_ms,
  commits, commits * 1000 / greatest(known_ms, 1) AS commits_per_s, coalesce(regressed, 0) AS regressed, lag_max,
  coalesce(offsets_expired, 0) AS offsets_expired, coalesce(offsets_expiring, 0) AS offsets_expiring, expires_ms, date
FROM found
