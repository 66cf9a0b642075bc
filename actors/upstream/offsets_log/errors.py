"""What can be wrong with the bytes of Kafka's log."""


class LogUnreadable(Exception):
    """Raised if Kafka's log cannot be read on; the text says where, what is wrong, and what to do."""


class TakingRefused(Exception):
    """Raised if a shard does not take a part of Kafka's log, in the shard's words."""
