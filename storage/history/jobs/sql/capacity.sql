WITH begun AS (
  SELECT date, began_ms - began_ms % 3600000 AS hour_ms, offsets_partition, group_id, count(*) AS rebalances
  FROM rebalances GROUP BY date, began_ms - began_ms % 3600000, offsets_partition, group_id
), by_group AS (
  SELECT date, hour_ms, offsets_partition, group_id, coalesce(commits, 0) AS commits, coalesce(offsets, 0) AS offsets,
    coalesce(rebalances, 0) AS rebalances
  FROM hours FULL JOIN begun USING (date, hour_ms, offsets_partition, group_id)
), placed AS ( -- One pass for both: a row counts for its partition and for the tier.
  SELECT date, hour_ms, group_id, commits, offsets, rebalances, unnest([offsets_partition, $tier]) AS offsets_partition
  FROM by_group
), summed AS (
  SELECT date, hour_ms, offsets_partition, count(*) AS groups, sum(commits) AS commits, sum(offsets) AS offsets,
    sum(rebalances) AS rebalances, arg_max(group_id, struct_pack(commits, group_id)) AS hot_group, max(commits) AS hot
  FROM placed GROUP BY date, hour_ms, offsets_partition
), placed_minutes AS (
  SELECT hour_ms, minute, commits, unnest([offsets_partition, $tier]) AS offsets_partition FROM minutes
), summed_minutes AS (
  SELECT hour_ms, offsets_partition, minute, sum(commits) AS commits
  FROM placed_minutes GROUP BY hour_ms, offsets_partition, minute
), busiest AS (
  SELECT hour_ms, offsets_partition, max(commits) AS most FROM summed_minutes GROUP BY hour_ms, offsets_partition
)
SELECT hour_ms, offsets_partition, groups, commits, offsets, commits / 3600 AS commits_per_s,
  coalesce(most, 0) / 60 AS peak_commits_per_s, rebalances, hot_group, hot / nullif(commits, 0) AS hot_share, date
FROM summed LEFT JOIN busiest USING (hour_ms, offsets_partition)
