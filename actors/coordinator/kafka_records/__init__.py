"""Records of groups and transactions in the bytes that Kafka keeps in its internal topics.

`schemas` says which fields they have, `codec` reads and writes them, `convert` makes ours of Kafka's and
Kafka's of ours for groups. `committed` makes Kafka's of what is committed as it goes on, for
`__consumer_offsets`; `transactions` does so for `__transaction_state`.
"""
