"""Random sequences of requests, about groups or about data and administration, played against a real Kafka
and our tier in lockstep.

`choosing` draws the operations of a seed (`choosing_data` those that are not about groups), `slots` says
what a member knows, `asking` makes an operation a
request of one side (each side has its own member ids, epochs and assignments), `lockstep` plays and compares,
`known` lists the differences that are explained, `shrinking` drops operations while the difference stays.

A new request has a draw with its weight in `choosing` or `choosing_data`, and becomes fields in `asking` or
`asking_data`; what its answer may leave open stands in `sides`, what has to be waited for after it in
`settling`.
"""
