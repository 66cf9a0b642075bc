"""Random sequences of group requests, played against a real Kafka and our tier in lockstep.

`choosing` draws the operations of a seed, `slots` says what a member knows, `asking` makes an operation a
request of one side (each side has its own member ids, epochs and assignments), `lockstep` plays and compares,
`known` lists the differences that are explained, `shrinking` drops operations while the difference stays.
"""
