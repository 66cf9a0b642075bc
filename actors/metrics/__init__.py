"""What an actor counts and what a node tells of it: Kafka's names, Prometheus' form (A23).

`families` is the table of all metrics. Actors count little and derive much: groups by state, offsets and lags
are counted when somebody asks. A node's broker asks the replicas on its node and serves the sum over HTTP
(`metrics.port`); `groupd metrics` asks all actors of the tier.
"""
