WITH moved AS (
  SELECT group_id, offsets_partition, at_ms, unnest(moves) AS m FROM lives WHERE kind = 'rebalance_ended'
), changes AS (
  SELECT group_id, offsets_partition, at_ms, m.topic, m.partition, m.to_member AS member_id, true AS is_gain
  FROM moved WHERE m.to_member IS NOT NULL UNION ALL
  SELECT group_id, offsets_partition, at_ms, m.topic, m.partition, m.from_member, false
  FROM moved WHERE m.from_member IS NOT NULL
), owned AS (
  SELECT *, min(at_ms) FILTER (NOT is_gain) OVER (PARTITION BY group_id, topic, partition, member_id
    ORDER BY at_ms, is_gain ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS lost_ms FROM changes
), gone AS (
  SELECT group_id, member_id, list_sort(list(at_ms)) AS gone
  FROM lives WHERE kind IN ('member_left', 'member_expired', 'member_fenced') GROUP BY ALL
), silent AS (
  SELECT offsets_partition, at_ms, kind, lag(kind) OVER (PARTITION BY offsets_partition ORDER BY term, sequence) AS p
  FROM lives WHERE kind IN ('coordinator_elected', 'coordinator_lost', 'coordinator_moved', 'events_dropped')
), lost AS (
  SELECT offsets_partition, list_sort(list(at_ms)) AS lost FROM silent
  WHERE kind = 'events_dropped' OR (kind = 'coordinator_elected' AND p = 'coordinator_elected') GROUP BY ALL
), cut AS (
  SELECT group_id, list_sort(list(at_ms)) AS cut FROM lives
  WHERE kind = 'rebalance_ended' AND moved > coalesce(len(moves), 0) GROUP BY ALL
), held AS (
  SELECT group_id, offsets_partition, topic, partition, member_id, at_ms AS from_ms, least(
    coalesce(lost_ms, 1::BIGINT << 62), coalesce(list_filter(gone, lambda g: g >= at_ms)[1], 1::BIGINT << 62),
    coalesce(list_filter(lost, lambda g: g > at_ms)[1], 1::BIGINT << 62),
    coalesce(list_filter(cut, lambda g: g > at_ms)[1], 1::BIGINT << 62)) AS until_ms
  FROM owned LEFT JOIN gone USING (group_id, member_id) LEFT JOIN lost USING (offsets_partition)
    LEFT JOIN cut USING (group_id) WHERE is_gain
), swept AS (
  SELECT *, max(struct_pack(until_ms, member_id)) OVER (PARTITION BY group_id, topic, partition
    ORDER BY from_ms, until_ms, member_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS other FROM held
), epochs AS (
  SELECT *, CASE WHEN kind <> 'group_deleted' THEN group_epoch ELSE -1 END AS epoch
  FROM lives WHERE kind = 'group_deleted'
    OR group_epoch IS NOT NULL AND (kind <> 'rebalance_ended' OR state IN ('Stable', 'Empty'))
), falls AS (
  SELECT *, lag(epoch) OVER (PARTITION BY group_id ORDER BY term, sequence) AS before FROM epochs
), leaders AS (
  SELECT offsets_partition, max(at_ms) AS at_ms, arg_min(node_id, at_ms) AS before, arg_max(node_id, at_ms) AS after
  FROM lives WHERE kind = 'coordinator_elected' GROUP BY offsets_partition, term HAVING count(DISTINCT node_id) > 1)
SELECT 'double ownership' AS rule, group_id, offsets_partition, from_ms AS at_ms,
  nullif(least(until_ms, other.until_ms), 1::BIGINT << 62) AS until_ms, topic, partition,
  [other.member_id, member_id] AS members, NULL::BIGINT AS before, NULL::BIGINT AS after,
  epoch_ms(from_ms)::DATE AS date
FROM swept WHERE other.until_ms > from_ms AND other.member_id <> member_id
UNION ALL SELECT 'commit went back', group_id, offsets_partition, at_ms, NULL, topic, partition, [member_id],
  end_offset, committed_offset, epoch_ms(at_ms)::DATE FROM lives WHERE kind = 'commit_regressed'
UNION ALL SELECT 'epoch fell', group_id, offsets_partition, at_ms, NULL, NULL, NULL, [member_id], before, epoch,
  epoch_ms(at_ms)::DATE FROM falls WHERE epoch < before AND kind <> 'group_deleted'
UNION ALL SELECT 'two leaders in a term', NULL, offsets_partition, at_ms, NULL, NULL, NULL, NULL, before, after,
  epoch_ms(at_ms)::DATE FROM leaders
