"""A tier in front of a real Kafka and its real consumers: attached, broken, upgraded, detached, and judged by
what the consumers themselves have written down."""
