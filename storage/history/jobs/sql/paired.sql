-- A rebalance goes from the first `rebalance_began` after the group was last stable to the `rebalance_ended` that
-- follows, even under another leader. A consumer group whose epoch rises meanwhile ends one rebalance and begins the
-- next. These are all rebalances of the days that were read. Where an offsets partition is split,
-- groups move to one of a higher number whose terms begin anew: a group's events go by partition, term and sequence.
WITH told AS (
  SELECT group_id, term, sequence, kind = 'rebalance_ended' AS is_end, kind = 'rebalance_began' AS is_begin, at_ms,
    group_type, offsets_partition, cause, rule, reason, member_id, client_id, client_host, client_software, group_epoch,
    joining_ms, syncing_ms, revoking_ms, members, partitions, moved, waited_for, assignor,
    -- Who gets a partition waits for it; the others work on. Of moves cut short that is a lower bound.
    array_length(list_distinct(list_filter(list_transform(moves, lambda m: m.to_member), lambda t: t IS NOT NULL)))
      AS takers
  FROM changes WHERE kind IN ('rebalance_delayed', 'rebalance_began', 'rebalance_ended')
), numbered AS (
  SELECT *, coalesce(sum(CASE WHEN is_end THEN 1 ELSE 0 END) OVER (
    PARTITION BY group_id ORDER BY offsets_partition, term, sequence ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS number
  FROM told
), whole AS (
  SELECT group_id, number, count_if(is_begin) AS times,
    count(DISTINCT CASE WHEN is_begin OR is_end THEN term END) AS terms,
    min(CASE WHEN NOT is_begin AND NOT is_end THEN at_ms END) AS delayed_since_ms,
    arg_min(struct_pack(at_ms, group_type, offsets_partition, cause, rule, reason, member_id, client_id, client_host,
      client_software), struct_pack(offsets_partition, term, sequence)) FILTER (WHERE is_begin) AS began,
    arg_max(struct_pack(at_ms, group_epoch, joining_ms, syncing_ms, revoking_ms, members, partitions, moved, waited_for,
      assignor, takers), struct_pack(offsets_partition, term, sequence)) FILTER (WHERE is_end) AS ended
  FROM numbered GROUP BY group_id, number
), timed AS (
  SELECT *, ended.at_ms - began.at_ms AS duration_ms, began.at_ms - delayed_since_ms AS delayed_ms,
    began.group_type = 'classic' AND coalesce(ended.assignor NOT LIKE '%$cooperative%', true) AS stops_all
  FROM whole WHERE times > 0
)
SELECT group_id, began.group_type, began.offsets_partition, began.at_ms AS began_ms, ended.at_ms AS ended_ms,
  ended.group_epoch, began.cause, began.rule, began.reason, began.member_id, began.client_id, began.client_host,
  began.client_software, times - 1 AS began_again, terms, duration_ms, delayed_ms, ended.joining_ms, ended.syncing_ms,
  ended.revoking_ms, ended.members, ended.partitions, ended.moved, ended.waited_for, stops_all,
  CASE WHEN stops_all THEN ended.members ELSE coalesce(ended.takers, 0) END * duration_ms AS idle_member_ms,
  -- While it is delayed, only partitions of those who left are idle: they move.
  CASE WHEN stops_all THEN ended.partitions ELSE ended.moved END * duration_ms + coalesce(ended.moved * delayed_ms, 0)
    AS unowned_partition_ms,
  epoch_ms(began.at_ms)::DATE AS date
FROM timed
