"""Whole applications of Kafka's world on a tier, for as long as asked, while leaders are killed under them.

Kafka Streams and Kafka Connect use consumers, producers, transactions, topics and configs at once: what one
of them stumbles over, no test of a single API has met.
"""
