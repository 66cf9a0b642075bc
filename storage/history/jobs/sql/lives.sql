-- Comings and goings of members.
SELECT at_ms, term, sequence, kind, group_id, member_id, client_id, client_host, client_software, cause,
  coalesce(group_instance_id, concat_ws('@', client_id, client_host)) AS client, date
FROM changes WHERE kind IN ($lives)
