"""Frames that no client sends, by the million, against the real actors without sockets.

`python -m tests.fuzz --frames 1000000 --seed 1`. What is real: connections, the broker's and the partitions'
actors, their APIs, replicas, coordinators, metadata. What is replaced: sockets, Ray, Raft (whatever is
proposed is committed), time.

`plausible` makes requests that get somewhere, `distortions` makes one field of them wrong, `mutations`
spoils their bytes; `campaign` draws frames, `sweep` leaves no version out. `sockets` sends the same to a tier
that runs.
"""
