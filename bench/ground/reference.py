"""The Apache Kafka that is right: tests, benchmarks and pages take its version from here.

After a change: `python -m tests.oracle record` asks it for every transcript again, `python -m
tests.kafka.schemas` reads its schemas again, and a test names the pages that speak of another version.
"""

from __future__ import annotations

from typing import Final

KAFKA_VERSION: Final = "4.4.0"
KAFKA_TOOLS_VERSION: Final = "4.3.1"
"""Kafka's command line tools have a version of their own: Maven Central has no kafka-tools 4.4.0."""
