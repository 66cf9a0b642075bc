"""All logs of a broker: one budget, the topic's configs, gone with the topic."""

from __future__ import annotations

from actors.ground.image import MetadataImage, TopicImage
from actors.ground.spec import BrokerSettings
from actors.topics.logs import Produced, TopicLogs, log_settings
from actors.topics.partition_log import LogSettings
from actors.topics.record_checks import RecordRules
from tests.topics.batches import batch
from tests.topics.store import Memory

TOPIC = TopicImage(b"\1" * 16, "t", (1, 1, 2))


def new_logs(bytes_max: int = 10**9, settings: BrokerSettings | None = None) -> TopicLogs:
    return TopicLogs(settings or BrokerSettings(), "", store=Memory(), bytes_max=bytes_max)


def test_all_logs_together_stay_within_the_budget() -> None:
    size = len(batch(b"x" * 500))
    logs = new_logs(bytes_max=20 * size)
    for number in range(200):
        logs.append(TOPIC, number % 2, Produced(batch(b"x" * 500)), 0)
        assert logs.size_bytes <= 20 * size
    assert logs.size_bytes == sum(logs.log(TOPIC, partition).size_bytes for partition in (0, 1))
    assert logs.size_bytes > 10 * size
    assert logs.log(TOPIC, 0).end_offset == logs.log(TOPIC, 1).end_offset == 100


def test_many_logs_of_one_batch_each_also_stay_within_the_budget() -> None:
    size = len(batch(b"x" * 500))
    wide = TopicImage(b"\3" * 16, "wide", (1,) * 100)
    logs = new_logs(bytes_max=20 * size)
    for partition in range(100):
        logs.append(wide, partition, Produced(batch(b"x" * 500)), 0)
        assert logs.size_bytes <= 20 * size
        assert logs.log(wide, partition).size_bytes == size


def test_logs_of_deleted_topics_and_of_partitions_led_elsewhere_are_dropped() -> None:
    logs = new_logs()
    for partition in (0, 1):
        logs.append(TOPIC, partition, Produced(batch(b"x")), 0)
    logs.retain(MetadataImage(topics=(TOPIC._replace(partition_leaders=(1, 2, 2)),)), 1)
    assert (len(logs), logs.size_bytes) == (1, len(batch(b"x")))
    again = TopicImage(b"\2" * 16, "t", (1,))
    logs.retain(MetadataImage(topics=(again,)), 1)
    assert (len(logs), logs.size_bytes) == (0, 0)
    assert logs.log(again, 0).end_offset == 0


def test_changed_configs_hold_from_the_next_use_on() -> None:
    logs = new_logs()
    logs.append(TOPIC, 0, Produced(batch(b"x" * 500)), 0)
    small = TOPIC._replace(configs=(("retention.ms", "5"),))
    assert logs.log(small, 0).settings.retention_ms == 5
    logs.expire(6)
    assert (logs.size_bytes, logs.log(small, 0).log_start_offset) == (0, 1)


def test_w33_changed_settings_of_the_broker_hold_for_logs_that_nobody_uses() -> None:
    logs = new_logs()
    logs.append(TOPIC, 0, Produced(batch(b"x" * 500)), 0)
    logs.take(BrokerSettings(log_retention_ms=5))
    logs.retain(MetadataImage(topics=(TOPIC,)), 1)
    logs.expire(6)
    assert logs.size_bytes == 0


def test_delete_records_gives_the_bytes_back_to_the_budget() -> None:
    logs = new_logs()
    logs.append(TOPIC, 0, Produced(batch(b"x")), 0)
    assert (logs.delete_records(TOPIC, 0, -1), logs.size_bytes) == (1, 0)


def test_a_topics_configs_count_over_the_brokers_within_its_memory() -> None:
    settings = BrokerSettings(log_retention_bytes=1_000, log_retention_ms=2_000, message_max_bytes=300)

    def of(*configs: tuple[str, str]) -> LogSettings:
        return log_settings(TOPIC._replace(configs=configs), settings)

    assert of() == LogSettings(300, 1_000, 2_000)
    assert of(("retention.bytes", "-1"), ("retention.ms", "-1")) == LogSettings(300, 1_000, None)
    assert of(("retention.bytes", "9999"), ("max.message.bytes", "9")) == LogSettings(9, 1_000, 2_000)
    assert of(("cleanup.policy", "compact")).retention_ms is None
    assert of(("cleanup.policy", "compact,delete")).retention_ms == 2_000
    assert of(("message.timestamp.type", "LogAppendTime")).records == RecordRules(log_append_time=True)
    assert of(("cleanup.policy", "delete,compact")).records == RecordRules(needs_keys=True)
    times = (("message.timestamp.before.max.ms", "7"), ("message.timestamp.after.max.ms", "8"))
    assert of(*times).records == RecordRules(older_ms_max=7, newer_ms_max=8)
