-- Commits of each minute of all these offsets partitions.
SELECT hour_ms, minute::BIGINT AS minute, sum(commits)::BIGINT AS commits FROM minutes GROUP BY hour_ms, minute
