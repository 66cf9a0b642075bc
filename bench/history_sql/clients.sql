SELECT client_host, client_software, count(DISTINCT group_id) AS groups, count(*) AS clients,
  count(*) FILTER (is_flapping) AS flapping, count(*) FILTER (is_slow) AS slow, count(*) FILTER (is_stuck) AS stuck,
  sum(triggered) AS triggered, sum(expired) AS expired, sum(waited_ms) AS waited_ms, date
FROM members GROUP BY ALL
