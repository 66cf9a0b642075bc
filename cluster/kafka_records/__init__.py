"""Records of groups in the bytes that Kafka keeps in `__consumer_offsets`.

`schemas` says which fields they have, `codec` reads and writes them, `convert` makes ours of Kafka's and
Kafka's of ours, `dump` is a file of them.
"""
