-- Of what each offsets partition bore, which may have been worked out apart from the others.
WITH tier_minute AS (
  SELECT hour_ms, minute, sum(commits) AS commits FROM tier_minutes GROUP BY hour_ms, minute
), busiest AS (
  SELECT hour_ms, max(commits) AS most FROM tier_minute GROUP BY hour_ms
), summed AS (
  SELECT date, hour_ms, sum(groups) AS groups, sum(commits) AS commits, sum(offsets) AS offsets,
    sum(rebalances) AS rebalances, arg_max(hot_group, struct_pack(hot, hot_group)) AS hot_group, max(hot) AS hot
  FROM loads GROUP BY date, hour_ms
), placed AS (
  SELECT date, hour_ms, offsets_partition, groups, commits, offsets, rebalances, hot_group, hot, most FROM loads
  UNION ALL SELECT date, hour_ms, $tier, groups, commits, offsets, rebalances, hot_group, hot, most
  FROM summed LEFT JOIN busiest USING (hour_ms)
)
SELECT hour_ms, offsets_partition, groups, commits, offsets, commits / 3600 AS commits_per_s,
  coalesce(most, 0) / 60 AS peak_commits_per_s, rebalances, hot_group, hot / nullif(commits, 0) AS hot_share, date
FROM placed
