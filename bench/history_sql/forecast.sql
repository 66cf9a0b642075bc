WITH daily AS (
  SELECT date, max(commits_per_s) FILTER (offsets_partition = -1) AS peak,
    max(commits_per_s) FILTER (offsets_partition <> -1) AS partition_peak, date - DATE '1970-01-01' AS day
  FROM capacity GROUP BY date
), trend AS (
  SELECT *, count(*) OVER w AS days, CASE WHEN count(*) OVER w >= 3 THEN regr_slope(peak, day) OVER w END AS slope
  FROM daily WINDOW w AS (ORDER BY day RANGE BETWEEN 6 PRECEDING AND CURRENT ROW))
SELECT peak AS peak_commits_per_s, days, slope AS trend_per_day,
  greatest(0, peak + 30 * coalesce(slope, 0)) AS forecast_commits_per_s,
  partition_peak / nullif(peak, 0) AS hot_partition_share, ceil(peak / 10000) AS partitions_now,
  ceil(greatest(0, peak + 30 * coalesce(slope, 0)) / 10000) AS partitions_ahead, date
FROM trend
