-- For how much of each day a group had members: who has none is neither available nor unavailable. What is known from
-- a group's first event on is what its events say; before it, it was empty if that event is its first member's coming.
WITH told AS (
  SELECT group_id, at_ms, offsets_partition, term, sequence, members > 0 AS has_members,
    kind = 'member_joined' AND members <= 1 AS is_first
  FROM changes WHERE members IS NOT NULL AND kind IN ($lives, 'rebalance_ended')
), compared AS (
  SELECT *, lag(has_members) OVER (PARTITION BY group_id ORDER BY offsets_partition, term, sequence) AS had_members
  FROM told
), turned AS ( -- Few events empty a group, or fill it.
  SELECT *, lead(at_ms) OVER (PARTITION BY group_id ORDER BY offsets_partition, term, sequence) AS next_ms
  FROM compared WHERE had_members IS NULL OR had_members <> has_members
), spans AS (
  SELECT group_id, at_ms AS from_ms, coalesce(next_ms, $far) AS until_ms FROM turned WHERE has_members
  UNION ALL SELECT group_id, 0, at_ms FROM turned WHERE had_members IS NULL AND NOT is_first
)
SELECT date, group_id, sum(least(until_ms, last_ms) - greatest(from_ms, first_ms)) AS served_ms
FROM spans JOIN known ON from_ms < last_ms AND until_ms > first_ms GROUP BY date, group_id
