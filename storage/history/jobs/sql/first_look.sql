-- Which groups there are in which offsets partition, and since and until when events count.
SELECT offsets_partition, group_id, epoch_ms(at_ms)::DATE AS date,
  min(at_ms) FILTER (WHERE at_ms >= $since_ms AND at_ms < $until_ms AND kind IN ($others, $bulk)) AS first_ms,
  max(at_ms) FILTER (WHERE at_ms >= $since_ms AND at_ms < $until_ms AND kind IN ($others, $bulk)) AS last_ms
FROM all_events GROUP BY ALL
