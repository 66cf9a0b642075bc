-- Commits and lag samples, summed up for each hour, offsets partition and group.
SELECT at_ms - at_ms % 3600000 AS hour_ms, offsets_partition, group_id, sum(commits) AS commits,
  sum(offsets) AS offsets, sum(regressed) AS regressed, max(lag) AS lag_max, min(at_ms) AS first_ms,
  max(at_ms) AS last_ms, epoch_ms(at_ms - at_ms % 3600000)::DATE AS date
FROM all_events WHERE kind IN ($bulk) AND at_ms >= $since_ms AND at_ms < $until_ms
GROUP BY at_ms - at_ms % 3600000, offsets_partition, group_id
