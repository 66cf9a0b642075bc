-- How much of each day is known: a tier may have started, or have been asked, at noon.
SELECT date, min(first_ms) AS first_ms, max(last_ms) AS last_ms FROM (
  SELECT date, min(first_ms) AS first_ms, max(last_ms) AS last_ms FROM hours GROUP BY date
  UNION ALL SELECT date, min(at_ms), max(at_ms) FROM changes WHERE at_ms >= $since_ms AND at_ms < $until_ms GROUP BY date
) GROUP BY date
