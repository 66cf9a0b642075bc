-- What each offsets partition bore in each hour, and the group that committed most in it.
WITH begun AS (
  SELECT date, began_ms - began_ms % 3600000 AS hour_ms, offsets_partition, group_id, count(*) AS rebalances
  FROM rebalances GROUP BY date, began_ms - began_ms % 3600000, offsets_partition, group_id
), by_group AS (
  SELECT date, hour_ms, offsets_partition, group_id, coalesce(commits, 0) AS commits, coalesce(offsets, 0) AS offsets,
    coalesce(rebalances, 0) AS rebalances
  FROM hours FULL JOIN begun USING (date, hour_ms, offsets_partition, group_id)
), summed AS (
  SELECT date, hour_ms, offsets_partition, count(*)::BIGINT AS groups, sum(commits)::BIGINT AS commits,
    sum(offsets)::BIGINT AS offsets, sum(rebalances)::BIGINT AS rebalances,
    arg_max(group_id, struct_pack(commits, group_id)) AS hot_group, max(commits)::BIGINT AS hot
  FROM by_group GROUP BY date, hour_ms, offsets_partition
), busiest AS (
  SELECT hour_ms, offsets_partition, max(commits)::BIGINT AS most FROM minutes GROUP BY hour_ms, offsets_partition
)
SELECT date, hour_ms, offsets_partition, groups, commits, offsets, rebalances, hot_group, hot, most
FROM summed LEFT JOIN busiest USING (hour_ms, offsets_partition)
