"""Kafka's log of `__consumer_offsets`, as a follower fetches it: bytes become the pieces that a shard takes.

`reading` cuts batches into pieces, `unpacking` opens compressed ones, `taking` has a shard take them. What
the records mean is said in `actors.coordinator.take_over`.
"""
