WITH told AS (
  SELECT group_id, term, sequence, kind = 'rebalance_ended' AS is_end, kind = 'rebalance_began' AS is_begin, at_ms, group_type, offsets_partition,
         cause, rule, reason, member_id, client_id, client_host, client_software, group_epoch, joining_ms,
         syncing_ms, revoking_ms, members, partitions, moved, waited_for, assignor,
         list_unique(list_transform(moves, lambda m: m.to_member)) AS takers,
         coalesce(sum(CASE WHEN kind = 'rebalance_ended' THEN 1 ELSE 0 END) OVER (
           PARTITION BY group_id ORDER BY term, sequence ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS n
  FROM lives WHERE kind IN ('rebalance_delayed', 'rebalance_began', 'rebalance_ended')
), paired AS (
  SELECT group_id, n, count(*) FILTER (is_begin) AS times,
    count(DISTINCT term) FILTER (is_begin OR is_end) AS terms,
    min(at_ms) FILTER (NOT is_begin AND NOT is_end) AS delayed_since_ms,
    arg_min(struct_pack(at_ms, group_type, offsets_partition, cause, rule, reason, member_id, client_id,
      client_host, client_software), struct_pack(term, sequence)) FILTER (is_begin) AS b,
    arg_max(struct_pack(at_ms, group_epoch, joining_ms, syncing_ms, revoking_ms, members, partitions, moved,
      waited_for, assignor, takers), struct_pack(term, sequence)) FILTER (is_end) AS e
  FROM told GROUP BY group_id, n HAVING count(*) FILTER (is_begin) > 0
), costed AS (
  SELECT *, e.at_ms - b.at_ms AS took, b.at_ms - delayed_since_ms AS delayed,
    b.group_type = 'classic' AND coalesce(e.assignor NOT LIKE '%cooperative%', true) AS stops FROM paired)
SELECT group_id, b.group_type, b.offsets_partition, b.at_ms AS began_ms, e.at_ms AS ended_ms, e.group_epoch, b.cause,
  b.rule, b.reason, b.member_id, b.client_id, b.client_host, b.client_software, times - 1 AS began_again, terms,
  took AS duration_ms, delayed AS delayed_ms, e.joining_ms, e.syncing_ms, e.revoking_ms, e.members, e.partitions, e.moved, e.waited_for,
  stops AS stops_all, CASE WHEN stops THEN e.members ELSE coalesce(e.takers, 0) END * took AS idle_member_ms,
  CASE WHEN stops THEN e.partitions ELSE e.moved END * took + coalesce(e.moved * delayed, 0) AS unowned_partition_ms,
  epoch_ms(b.at_ms)::DATE AS date
FROM costed
