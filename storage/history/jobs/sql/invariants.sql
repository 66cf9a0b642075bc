-- What must never be in a history: the judge's rules over months. A commit that goes back may have been asked for: it is
-- told anyway.
WITH held AS (
  SELECT *, max(struct_pack(until_ms, member_id)) OVER (PARTITION BY group_id, topic, partition
    ORDER BY from_ms, until_ms, member_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS other
  FROM intervals
), told AS ( -- A group's epoch only rises; one that was deleted may begin anew.
  SELECT group_id, offsets_partition, term, sequence, at_ms, kind, member_id,
    CASE WHEN kind <> 'group_deleted' THEN group_epoch ELSE -1 END AS epoch,
    coalesce(kind = 'rebalance_ended' AND lag(kind) OVER w = 'group_epoch_bumped' AND lag(term) OVER w = term
      AND lag(sequence) OVER w = sequence - 1, false) AS is_cut_short
  FROM changes WHERE kind = 'group_deleted'
    OR group_epoch IS NOT NULL AND (kind <> 'rebalance_ended' OR state IN ('Stable', 'Empty'))
  WINDOW w AS (PARTITION BY group_id ORDER BY offsets_partition, term, sequence)
), epochs AS ( -- A rebalance that ends because the epoch rose again is told right after that rise, with its own epoch.
  SELECT *, lag(epoch) OVER (PARTITION BY group_id ORDER BY offsets_partition, term, sequence) AS before
  FROM told WHERE NOT is_cut_short
), leaders AS (
  SELECT offsets_partition, max(at_ms) AS at_ms, arg_min(node_id, struct_pack(at_ms, node_id)) AS before,
    arg_max(node_id, struct_pack(at_ms, node_id)) AS after
  FROM changes WHERE kind = 'coordinator_elected' GROUP BY offsets_partition, term HAVING count(DISTINCT node_id) > 1
), found AS (
  SELECT '$double_ownership' AS rule, group_id, offsets_partition, from_ms AS at_ms,
    CASE WHEN least(until_ms, other.until_ms) < $far THEN least(until_ms, other.until_ms) END AS until_ms, topic,
    partition, [other.member_id, member_id] AS members, NULL::BIGINT AS before, NULL::BIGINT AS after
  FROM held WHERE other.until_ms > from_ms AND other.member_id <> member_id
  UNION ALL SELECT '$commit_regressed', group_id, offsets_partition, at_ms, NULL::BIGINT, topic, partition, [member_id],
    end_offset, committed_offset FROM changes WHERE kind = 'commit_regressed'
  UNION ALL SELECT '$epoch_fell', group_id, offsets_partition, at_ms, NULL::BIGINT, NULL::VARCHAR, NULL::INT,
    [member_id], before::BIGINT, epoch::BIGINT FROM epochs WHERE epoch < before AND kind <> 'group_deleted'
  UNION ALL SELECT '$two_leaders', NULL::VARCHAR, offsets_partition, at_ms, NULL::BIGINT, NULL::VARCHAR, NULL::INT,
    NULL::VARCHAR[], before::BIGINT, after::BIGINT FROM leaders
)
SELECT *, epoch_ms(at_ms)::DATE AS date FROM found WHERE at_ms >= $since_ms AND at_ms < $until_ms
