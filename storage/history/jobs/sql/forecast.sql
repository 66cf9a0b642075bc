-- A day's trend is that of the seven days up to it.
WITH daily AS (
  SELECT date, date_diff('day', DATE '1970-01-01', date) AS day,
    max(CASE WHEN offsets_partition = $tier THEN peak_commits_per_s END) AS peak,
    max(CASE WHEN offsets_partition <> $tier THEN peak_commits_per_s END) AS partition_peak
  FROM capacity GROUP BY date
), week AS (
  SELECT *, count(*) OVER w AS days, CASE WHEN count(*) OVER w >= 3 THEN regr_slope(peak, day) OVER w END AS trend
  FROM daily WINDOW w AS (ORDER BY day RANGE BETWEEN 6 PRECEDING AND CURRENT ROW)
), ahead AS (
  SELECT *, greatest(0.0, peak + $ahead_days * coalesce(trend, 0.0)) AS peak_ahead FROM week
)
SELECT peak AS peak_commits_per_s, days, trend AS trend_per_day, peak_ahead AS forecast_commits_per_s,
  partition_peak / nullif(peak, 0) AS hot_partition_share, ceil(peak / $per_partition) AS partitions_now,
  ceil(peak_ahead / $per_partition) AS partitions_ahead, date
FROM ahead
