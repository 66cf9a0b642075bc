SELECT client_host, client_software, count(DISTINCT group_id) AS groups, count(*) AS clients,
  count_if(is_flapping) AS flapping, count_if(is_slow) AS slow, count_if(is_stuck) AS stuck,
  sum(triggered) AS triggered, sum(expired) AS expired, sum(waited_ms) AS waited_ms, date
FROM members GROUP BY date, client_host, client_software
