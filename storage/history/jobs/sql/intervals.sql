-- Who had which partition from when until when ($far: no end is known).
-- Only what is known is held against anybody: ownership is forgotten where a leader's last events may be lost (it was
-- replaced without a word) or were dropped, and where a rebalance moved more than its row says. Ends are looked for
-- backwards: sums of what has come are made as one goes along, of what is to come anew for each row.
WITH sides AS ( -- In the same rebalance a partition may be lost and found again: the loss comes first.
  SELECT group_id, topic, partition, offsets_partition, at_ms,
    unnest([struct_pack(member_id := from_member, is_end := true), struct_pack(member_id := to_member, is_end := false)])
      AS side
  FROM doubtful
), turns AS (
  SELECT group_id, topic, partition, offsets_partition, at_ms, side.member_id AS member_id, side.is_end AS is_end
  FROM sides WHERE side.member_id IS NOT NULL
), lost AS (
  SELECT *, min(CASE WHEN is_end THEN at_ms END) OVER (PARTITION BY group_id, topic, partition, member_id
    ORDER BY at_ms DESC, is_end ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS lost_ms
  FROM turns
), departures AS (
  SELECT group_id, member_id, list(at_ms) AS departures_ms FROM lives WHERE kind IN ($gone) GROUP BY group_id, member_id
), owned AS (
  SELECT group_id, topic, partition, offsets_partition, member_id, at_ms, lost_ms,
    list_min(list_filter(departures_ms, lambda each: each >= at_ms)) AS gone_ms, false AS is_end
  FROM lost LEFT JOIN departures USING (group_id, member_id) WHERE NOT is_end
), with_cuts AS (
  SELECT group_id, topic, partition, offsets_partition, member_id, at_ms, lost_ms, gone_ms, is_end FROM owned
  UNION ALL SELECT group_id, NULL, NULL, NULL, NULL, at_ms, NULL, NULL, true FROM changes
  WHERE kind = 'rebalance_ended' AND moved > coalesce(array_length(moves), 0)
), cut AS (
  SELECT *, min(CASE WHEN is_end THEN at_ms END) OVER (PARTITION BY group_id
    ORDER BY at_ms DESC, is_end ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS cut_ms
  FROM with_cuts
), leaders AS (
  SELECT offsets_partition, at_ms, kind, lag(kind) OVER (PARTITION BY offsets_partition ORDER BY term, sequence) AS before
  FROM changes WHERE kind IN ('coordinator_elected', 'coordinator_lost', 'coordinator_moved', 'events_dropped')
), silences AS (
  SELECT offsets_partition, list(at_ms) AS silences_ms FROM leaders
  WHERE kind = 'events_dropped' OR kind = 'coordinator_elected' AND before = 'coordinator_elected'
  GROUP BY offsets_partition
)
SELECT group_id, offsets_partition, topic, partition, member_id, at_ms AS from_ms,
  least(coalesce(lost_ms, $far), coalesce(gone_ms, $far), coalesce(cut_ms, $far),
    coalesce(list_min(list_filter(silences_ms, lambda each: each > at_ms)), $far)) AS until_ms
FROM cut LEFT JOIN silences USING (offsets_partition) WHERE NOT is_end
