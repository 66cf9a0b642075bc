"""Records of groups in the bytes that Kafka keeps in `__consumer_offsets`.

`schemas` says which fields they have, `codec` reads and writes them, `convert` makes ours of Kafka's and
Kafka's of ours, `committed` makes Kafka's of what is committed as it goes on.
"""
