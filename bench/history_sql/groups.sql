WITH bills AS (
  SELECT date, group_id, max(group_type) AS group_type, count(*) AS rebalances, histogram(cause) AS causes,
    sum(duration_ms) AS unstable_ms, (max(began_ms) - min(began_ms)) // nullif(count(*) - 1, 0) AS between_ms,
    sum(idle_member_ms) AS idle_member_ms, sum(moved) AS moved, max(members) AS members
  FROM rebalances GROUP BY ALL
), by_client AS (
  SELECT date, group_id, concat_ws('@', client_id, client_host) AS client, sum(idle_member_ms) AS bill
  FROM rebalances GROUP BY ALL
), worst AS (
  SELECT date, group_id, max(bill) AS worst_idle_member_ms,
    arg_max(client, struct_pack(bill, client)) AS worst_client FROM by_client GROUP BY ALL
), comings AS (
  SELECT epoch_ms(at_ms)::DATE AS date, group_id, count(*) FILTER (kind = 'member_joined') AS joined,
    count(*) FILTER (kind IN ('member_left', 'member_expired', 'member_fenced')) AS gone,
    count(*) FILTER (kind = 'member_expired') AS expired,
    sum(count) FILTER (kind = 'offsets_expired') AS offsets_expired,
    sum(count) FILTER (kind = 'offsets_expiring') AS offsets_expiring,
    min(first_ms) FILTER (kind = 'offsets_expiring') AS expires_ms
  FROM lives WHERE kind IN ('member_joined', 'member_left', 'member_expired', 'member_fenced', 'offsets_expired',
    'offsets_expiring')
  GROUP BY ALL
), commits AS (
  SELECT epoch_ms(hour_ms)::DATE AS date, group_id, sum(commits) AS commits, sum(regressed) AS regressed,
    max(lag_max) AS lag_max FROM hours GROUP BY ALL
), known AS (
  SELECT date, max(last_ms) - min(first_ms) AS known_ms FROM (
    SELECT epoch_ms(first_ms)::DATE AS date, first_ms, last_ms FROM hours
    UNION ALL SELECT epoch_ms(at_ms)::DATE, at_ms, at_ms FROM lives) GROUP BY date
)
SELECT group_id, group_type, coalesce(rebalances, 0) AS rebalances, causes, coalesce(unstable_ms, 0) AS unstable_ms,
  known_ms,
  greatest(0, 1 - coalesce(unstable_ms, 0) / greatest(known_ms, 1)) AS availability, between_ms,
  coalesce(idle_member_ms, 0) AS idle_member_ms, coalesce(moved, 0) AS moved, coalesce(joined, 0) AS joined,
  coalesce(gone, 0) AS gone, coalesce(expired, 0) AS expired,
  (coalesce(joined, 0) + coalesce(gone, 0)) / greatest(members, 1) AS churn, worst_client, worst_idle_member_ms,
  coalesce(commits, 0) AS commits, coalesce(commits, 0) * 1000 / greatest(known_ms, 1) AS commits_per_s,
  coalesce(regressed, 0) AS regressed, lag_max, coalesce(offsets_expired, 0) AS offsets_expired,
  coalesce(offsets_expiring, 0) AS offsets_expiring, expires_ms, date
FROM commits FULL JOIN bills USING (date, group_id) FULL JOIN worst USING (date, group_id)
  FULL JOIN comings USING (date, group_id) JOIN known USING (date)
