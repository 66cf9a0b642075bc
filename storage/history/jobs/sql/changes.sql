-- All events but commits and lag samples, of which there are most: with the columns that are looked at.
SELECT at_ms, offsets_partition, node_id, term, sequence, kind, group_id, group_type, group_epoch, member_id,
  group_instance_id, client_id, client_host, client_software, cause, rule, reason, joining_ms, syncing_ms, revoking_ms,
  members, partitions, moved, moves, waited_for, assignor, topic, partition, committed_offset, end_offset, "count",
  state, first_ms, epoch_ms(at_ms)::DATE AS date
-- Said as what they are, not as what they are not: so row groups that hold only the others are passed over.
FROM all_events WHERE kind IN ($others)
