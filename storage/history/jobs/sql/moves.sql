-- A row for each partition that changed owner in a rebalance.
SELECT group_id, offsets_partition, term, sequence, at_ms, move.topic AS topic, move.partition AS partition,
  move.from_member AS from_member, move.to_member AS to_member
FROM (
  SELECT group_id, offsets_partition, term, sequence, at_ms, unnest(moves) AS move
  FROM changes WHERE kind = 'rebalance_ended' AND moves IS NOT NULL)
