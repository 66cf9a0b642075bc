"""Keep all partition logs of one broker, within one budget of memory."""

from __future__ import annotations

from typing import NamedTuple

from actors.ground.image import MetadataImage, TopicImage
from actors.ground.spec import BrokerSettings
from actors.metadata.topic_configs import entries
from actors.topics.floor import FloorFile, FloorStore, OffsetsFloor
from actors.topics.partition_log import Appended, LogSettings, PartitionLog
from actors.topics.record_checks import ANY_AGE_MS, RecordRules
from actors.topics.transactions import Guard, Marker
from actors.topics.waiting import AppendWaiters, PartitionKey

LOGS_BYTES_MAX = 1024 * 1024 * 1024
"""The bytes that the record batches of all logs of one broker may have together."""
_SHRINK_TO = 7 / 8
"""The share of every log, and of the budget, that is left once the budget is spent: one pass over the logs
makes room for many appends."""


class Produced(NamedTuple):
    """What a Produce request brings for one partition."""

    batch: bytes
    guard: Guard | None = None
    """What the transaction was verified with; None: it was not verified."""


class TopicLogs:
    """The logs of the partitions that this broker leads, made when first used.

    `directory` keeps what outlives the process (`actors.topics.floor`); `store` takes its place in tests.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        directory: str,
        *,
        store: FloorStore | None = None,
        bytes_max: int = LOGS_BYTES_MAX,
    ) -> None:
        self._settings = settings
        self._floor = OffsetsFloor(store if store is not None else FloorFile(directory))
        self._logs: dict[PartitionKey, PartitionLog] = {}
        self._configs: dict[bytes, tuple[tuple[tuple[str, str], ...], LogSettings]] = {}
        """Topic id -> the topic's configs, and what they mean for its logs."""
        self._bytes_max = bytes_max
        self._bytes = 0
        self.waiters = AppendWaiters()

    def __len__(self) -> int:
        return len(self._logs)

    @property
    def size_bytes(self) -> int:
        return self._bytes

    def log(self, topic: TopicImage, partition: int) -> PartitionLog:
        """Return the log of a partition that this broker leads, with the topic's configs as they are now."""
        key = (topic.topic_id, partition)
        log = self._logs.get(key)
        settings = self._log_settings(topic)
        if log is None:
            start_offset = self._floor.start_offset(*key)
            log = PartitionLog(settings, start_offset, lambda end: self._floor.reserve(*key, end))
            self._logs[key] = log
        log.settings = settings
        return log

    def partition_bytes(self, topic: TopicImage, partition: int) -> int:
        """Return the size of a partition's log; 0 if nobody has used it yet."""
        log = self._logs.get((topic.topic_id, partition))
        return 0 if log is None else log.size_bytes

    def begin_at(self, topic_id: bytes, partition: int, offset: int) -> None:
        """Have the partition's log, which must not exist yet, begin no lower than `offset`. Raises
        OSError."""
        self._floor.begin_at(topic_id, partition, offset)

    def append(
        self,
        topic: TopicImage,
        partition: int,
        produced: Produced,
        now_ms: int,
    ) -> Appended:
        """Append a batch and wake whoever waits for it. Raises LogError, OSError (nothing was appended)."""
        log = self.log(topic, partition)
        before = log.size_bytes
        appended = log.append(produced.batch, now_ms, guard=produced.guard)
        self._bytes += log.size_bytes - before
        if self._bytes > self._bytes_max:
            self._shrink(but=log)
        if appended.size_bytes:
            self.waiters.appended((topic.topic_id, partition), appended.size_bytes)
        return appended

    def end_transaction(self, topic: TopicImage, partition: int, marker: Marker, now_ms: int) -> None:
        """Append a marker and wake whoever waits: what it waits for may be readable now. Raises LogError,
        OSError (nothing was appended)."""
        log = self.log(topic, partition)
        before = log.size_bytes
        log.end_transaction(marker, now_ms)
        self._bytes += log.size_bytes - before
        self.waiters.interrupt((topic.topic_id, partition))

    def delete_records(self, topic: TopicImage, partition: int, before_offset: int) -> int:
        """Drop a log's records below `before_offset` and return its new start. Raises LogError."""
        log = self.log(topic, partition)
        before = log.size_bytes
        try:
            return log.delete_records(before_offset)
        finally:
            self._bytes += log.size_bytes - before

    def expire(self, now_ms: int) -> None:
        """Drop what retention no longer keeps in logs that nobody appends to."""
        for log in self._logs.values():
            before = log.size_bytes
            log.expire(now_ms)
            self._bytes += log.size_bytes - before

    def take(self, settings: BrokerSettings) -> None:
        """Take other settings: `retain`, which comes after, has every log keep to them."""
        self._settings = settings
        self._configs = {}

    def retain(self, image: MetadataImage, node_id: int) -> None:
        """Drop the logs of partitions that `node_id` does not lead (any more), deleted topics' among them."""
        for key in [key for key in self._logs if not _leads(image, key, node_id)]:
            self._bytes -= self._logs.pop(key).size_bytes
            self.waiters.interrupt(key)
        for key, log in self._logs.items():
            log.settings = self._log_settings(image.topics_by_id[key[0]])
        self._configs = {
            topic_id: known for topic_id, known in self._configs.items() if topic_id in image.topics_by_id
        }
        self._floor.forget_topics(but=image.topics_by_id)

    def close(self) -> None:
        """Stop, so that the next broker's logs go on exactly where these end. Raises OSError."""
        self._floor.give_back({key: log.end_offset for key, log in self._logs.items()})

    def _log_settings(self, topic: TopicImage) -> LogSettings:
        known = self._configs.get(topic.topic_id)
        if known is None or known[0] != topic.configs:
            known = self._configs[topic.topic_id] = (topic.configs, log_settings(topic, self._settings))
        return known[1]

    def _shrink(self, but: PartitionLog) -> None:
        """Drop the oldest batches of each log; if every log is down to its newest batch, drop whole logs."""
        for log in self._logs.values():
            before = log.size_bytes
            log.shrink_to(int(before * _SHRINK_TO))
            self._bytes += log.size_bytes - before
        for log in self._logs.values():
            if self._bytes <= self._bytes_max * _SHRINK_TO:
                break
            if log is not but:
                before = log.size_bytes
                log.delete_records(-1)
                self._bytes += log.size_bytes - before


def _leads(image: MetadataImage, key: PartitionKey, node_id: int) -> bool:
    topic = image.topics_by_id.get(key[0])
    return (
        topic is not None
        and key[1] < len(topic.partition_leaders)
        and topic.partition_leaders[key[1]] == node_id
    )


def log_settings(topic: TopicImage, settings: BrokerSettings) -> LogSettings:
    """Return a topic's overrides over the broker's settings. Memory is the broker's, so its size is a
    ceiling."""
    configs = dict(topic.configs)
    retention_bytes = int(configs.get("retention.bytes", settings.log_retention_bytes))
    if retention_bytes < 0:
        retention_bytes = settings.log_retention_bytes
    retention_ms = int(configs.get("retention.ms", settings.log_retention_ms))
    policies = entries(configs.get("cleanup.policy", "delete"))
    return LogSettings(
        message_bytes_max=int(configs.get("max.message.bytes", settings.message_max_bytes)),
        retention_bytes=min(retention_bytes, settings.log_retention_bytes),
        retention_ms=retention_ms if "delete" in policies and retention_ms >= 0 else None,
        records=RecordRules(
            log_append_time=configs.get("message.timestamp.type") == "LogAppendTime",
            needs_keys="compact" in policies,
            older_ms_max=int(configs.get("message.timestamp.before.max.ms", ANY_AGE_MS)),
            newer_ms_max=int(configs.get("message.timestamp.after.max.ms", RecordRules().newer_ms_max)),
        ),
    )
