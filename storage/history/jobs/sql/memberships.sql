-- A row for each group: its members' comings and goings in order of time, and the topics that it has owned.
WITH counts AS (
  SELECT group_id, topic, max(partition) + 1 AS partitions FROM moves GROUP BY group_id, topic
), topics AS (
  SELECT group_id, list(struct_pack(topic := topic, partitions := partitions)) AS topics FROM counts GROUP BY group_id
), moments AS (
  SELECT date, group_id, at_ms, list(member_id) FILTER (WHERE kind = 'member_joined') AS came,
    list(member_id) FILTER (WHERE kind IN ($gone)) AS went
  FROM lives GROUP BY date, group_id, at_ms
), turns AS (
  SELECT group_id, list(struct_pack(at_ms := at_ms, date := date, came := came, went := went)) AS turns
  FROM moments GROUP BY group_id
)
SELECT group_id, turns, topics FROM turns JOIN topics USING (group_id)
