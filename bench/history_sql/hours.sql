SELECT at_ms - at_ms % 3600000 AS hour_ms, offsets_partition, group_id, sum(commits) AS commits,
  sum(offsets) AS offsets, sum(regressed) AS regressed, max(lag) AS lag_max
FROM events WHERE kind IN ('commits', 'lag') GROUP BY ALL
