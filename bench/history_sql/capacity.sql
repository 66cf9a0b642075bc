WITH begun AS (
  SELECT began_ms - began_ms % 3600000 AS hour_ms, offsets_partition, group_id, count(*) AS rebalances
  FROM rebalances GROUP BY ALL
), by_group AS (
  SELECT hour_ms, offsets_partition, group_id, coalesce(commits, 0) AS commits, coalesce(offsets, 0) AS offsets,
    coalesce(rebalances, 0) AS rebalances
  FROM hours FULL JOIN begun USING (hour_ms, offsets_partition, group_id)
)
SELECT hour_ms, coalesce(offsets_partition, -1) AS offsets_partition, count(*) AS groups, sum(commits) AS commits,
  sum(offsets) AS offsets, sum(commits) / 3600 AS commits_per_s, sum(rebalances) AS rebalances,
  arg_max(group_id, struct_pack(commits, group_id)) AS hot_group, max(commits) / nullif(sum(commits), 0) AS hot_share,
  epoch_ms(hour_ms)::DATE AS date
FROM by_group GROUP BY GROUPING SETS ((hour_ms, offsets_partition), (hour_ms))
