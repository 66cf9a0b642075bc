SELECT at_ms - at_ms % 3600000 AS hour_ms, offsets_partition, group_id, sum(commits) AS commits,
  sum(offsets) AS offsets, sum(regressed) AS regressed, max(lag) AS lag_max, min(at_ms) AS first_ms, max(at_ms) AS last_ms
FROM events WHERE kind IN ('commits', 'lag') GROUP BY ALL
