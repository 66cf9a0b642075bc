"""What a tier in front of a Kafka cluster costs and saves, beside the same cluster without it."""
