SELECT client_host, client_software, sum(groups) AS groups, sum(clients) AS clients, sum(flapping) AS flapping,
  sum(slow) AS slow, sum(stuck) AS stuck, sum(triggered) AS triggered, sum(expired) AS expired,
  sum(waited_ms) AS waited_ms, date
FROM hosts GROUP BY date, client_host, client_software
