"""Groups of an existing Kafka: its log of an offsets partition becomes the state of this one.

Reading order: `inside` (what the tier asks of its shard), `taking` (the requests, and what is remembered of
the log), `fold` (what the records of a log mean here, in their order); `offset_records` reads the most
frequent ones. Who fetches the log, and how its bytes become pieces: `actors.upstream.offsets_log`.
"""
