-- What members say of each host, of these groups.
SELECT date, client_host, client_software, count(DISTINCT group_id)::BIGINT AS groups, count(*)::BIGINT AS clients,
  count_if(is_flapping)::BIGINT AS flapping, count_if(is_slow)::BIGINT AS slow, count_if(is_stuck)::BIGINT AS stuck,
  sum(triggered)::BIGINT AS triggered, sum(expired)::BIGINT AS expired, sum(waited_ms)::BIGINT AS waited_ms
FROM members GROUP BY date, client_host, client_software
