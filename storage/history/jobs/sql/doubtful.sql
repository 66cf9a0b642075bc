-- Moves of partitions of which some move takes from another than the one before gave to, or is earlier by its leader's
-- clock: the others never had two owners, and need no closer look.
WITH ordered AS (
  SELECT *, lag(term) OVER w IS NULL AS is_first,
    from_member IS NOT DISTINCT FROM lag(to_member) OVER w AND at_ms >= lag(at_ms) OVER w AS follows
  FROM moves WINDOW w AS (PARTITION BY group_id, topic, partition ORDER BY offsets_partition, term, sequence)
), judged AS (
  SELECT *, max(CASE WHEN is_first OR follows THEN 0 ELSE 1 END) OVER (PARTITION BY group_id, topic, partition) AS doubt
  FROM ordered
)
SELECT group_id, offsets_partition, term, sequence, at_ms, topic, partition, from_member, to_member
FROM judged WHERE doubt = 1
