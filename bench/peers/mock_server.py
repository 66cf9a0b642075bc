"""librdkafka's mock cluster: `python -m bench.peers.mock_server` prints its port, and ends with its input."""

from __future__ import annotations

import sys

from confluent_kafka import Producer


def main() -> None:
    """Run the cluster, which a producer with `test.mock.num.brokers` has in threads of its process."""
    producer = Producer({"test.mock.num.brokers": "1", "bootstrap.servers": "ignored:1"})
    (broker,) = producer.list_topics(timeout=10).brokers.values()
    print(broker.port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
