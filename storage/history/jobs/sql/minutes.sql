-- Commits of each minute and offsets partition: what the busiest minute bore is no mean over an hour. A row counts
-- commits since the last such row of its group, some seconds before: it counts where its middle is.
SELECT hour_ms, offsets_partition, minute, sum(commits) AS commits FROM (
  SELECT at_ms - at_ms % 3600000 AS hour_ms, offsets_partition,
    least(greatest((first_ms + last_ms) // 2 - (at_ms - at_ms % 3600000), 0), 3599999) // 60000 AS minute, commits
  FROM all_events WHERE kind = 'commits' AND at_ms >= $since_ms AND at_ms < $until_ms
) GROUP BY hour_ms, offsets_partition, minute
