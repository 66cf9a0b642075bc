"""Transactions of the second generation (KIP-890, transaction.version 2): each end gives the producer its
next epoch, and partitions need not be added before they are written to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.oracle.play import Client, Play
from tests.oracle.registry import transcript
from tests.oracle.transcripts.transactions import (
    PASSING,
    init,
    offsets,
    passed,
    settled,
    txn_commit,
)


def end(client: Client, producer: Mapping[str, Any], committed: bool) -> dict[str, Any]:
    """The producer as it is to go on; as it was if the end was refused."""
    answer = client.ask_until(passed, "end_txn", 5, committed=committed, **producer)
    if answer.error_code.value:
        return dict(producer)
    return {**producer, "producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}


def add_partitions(client: Client, producer: Mapping[str, Any], topics: Mapping[str, list[int]]) -> Any:
    """Add them once the markers of the transaction before are written."""

    def done(answer: Any) -> bool:
        return all(
            partition.partition_error_code.value not in PASSING
            for topic in answer.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        )

    fields: dict[str, Any] = {f"v3_and_below_{name}": value for name, value in producer.items()}
    fields["v3_and_below_topics"] = [
        {"name": name, "partitions": numbers} for name, numbers in topics.items()
    ]
    return client.ask_until(done, "add_partitions_to_txn", 3, unordered=("results_by_partition",), **fields)


def commit(client: Client, producer: Mapping[str, Any], group_id: str, topic: str, offset: int) -> Any:
    """Commit an offset in the producer's transaction once the markers of the one before are written."""

    def done(answer: Any) -> bool:
        return all(
            each.error_code.value not in PASSING for topic in answer.topics for each in topic.partitions
        )

    return client.ask_until(
        done,
        "txn_offset_commit",
        5,
        group_id=group_id,
        topics=offsets({topic: {0: offset}}),
        generation_id=-1,
        member_id="",
        **producer,
    )


@transcript(rows=("O18",))
def each_end_gives_the_next_epoch(play: Play) -> None:
    """A retry with the epoch before is answered as the first one; the other outcome is refused."""
    a, topic = play.connect(), play.topic()
    producer = init(a, play.unique("tx"))
    for committed, other in ((True, False), (False, True)):
        add_partitions(a, producer, {topic: [0]})
        after = end(a, producer, committed)
        play.note("epochs in between", after["producer_epoch"] - producer["producer_epoch"])
        end(a, producer, committed)
        end(a, producer, other)
        producer = after
    for change in (
        {"producer_epoch": producer["producer_epoch"] + 7},
        {"producer_epoch": -1},
        {"producer_id": producer["producer_id"] + 1_000_000},
        {"transactional_id": ""},
        {"transactional_id": play.unique("unseen")},
    ):
        a.ask("end_txn", 5, committed=True, **{**producer, **change})


@transcript(rows=("O18",))
def nothing_may_be_aborted_but_not_committed(play: Play) -> None:
    """A transaction without partitions exists for the producer alone; its abort gives an epoch too."""
    a, topic = play.connect(), play.topic()
    producer = init(a, play.unique("tx"))
    a.ask("end_txn", 5, committed=True, **producer)
    after = end(a, producer, False)
    play.note("epochs in between", after["producer_epoch"] - producer["producer_epoch"])
    end(a, producer, False)
    a.ask_until(passed, "end_txn", 5, committed=True, **after)
    add_partitions(a, after, {topic: [0]})
    done = end(a, after, True)
    a.ask_until(passed, "end_txn", 5, committed=True, **done)
    again = end(a, done, False)
    play.note("epochs in between", again["producer_epoch"] - after["producer_epoch"])
    a.ask_until(passed, "end_txn", 5, committed=True, **after)


@transcript(rows=("O18",))
def the_first_generation_goes_on_beside_the_second(play: Play) -> None:
    """A client whose EndTxn is of version 4 keeps its epoch, before and after one of version 5."""
    a, topic = play.connect(), play.topic()
    producer = init(a, play.unique("tx"))
    add_partitions(a, producer, {topic: [0]})
    a.ask_until(passed, "end_txn", 4, committed=True, **producer)
    add_partitions(a, producer, {topic: [0]})
    after = end(a, producer, True)
    a.ask_until(passed, "end_txn", 4, committed=True, **producer)
    add_partitions(a, after, {topic: [0]})
    a.ask_until(passed, "end_txn", 4, committed=False, **after)
    a.ask_until(
        passed,
        "init_producer_id",
        5,
        transactional_id=after["transactional_id"],
        producer_id=after["producer_id"],
        producer_epoch=after["producer_epoch"],
    )


@transcript(rows=("O18",))
def a_commit_of_offsets_adds_its_partition(play: Play) -> None:
    """TxnOffsetCommit 5 needs no AddOffsetsToTxn; 4 does, and says TRANSACTION_ABORTABLE without."""
    a, topic, group_id = play.connect(), play.topic(), play.group()
    a.ask_until(
        lambda answer: answer.coordinators[0].error_code.value == 0,
        "find_coordinator",
        4,
        key_type=0,
        coordinator_keys=[group_id],
    )
    producer = init(a, play.unique("tx"))
    txn_commit(a, producer, group_id, {topic: {0: 5}}, 4)
    commit(a, producer, group_id, topic, 5)
    producer = end(a, producer, True)
    settled(a, group_id, topic)
    commit(a, producer, group_id, topic, 6)
    after = end(a, producer, False)
    settled(a, group_id, topic)
    commit(a, producer, group_id, topic, 7)
    a.ask_until(passed, "add_offsets_to_txn", 3, group_id=group_id, **after)
    commit(a, after, group_id, topic, 8)
    end(a, after, True)
    settled(a, group_id, topic)


@transcript(rows=("O18",), cases={"v4": 4, "v5": 5})
def a_new_producer_fences_one_of_the_second_generation(play: Play, version: int) -> None:
    a, topic, key = play.connect(), play.topic(), play.unique("tx")
    zombie = init(a, key, version)
    add_partitions(a, zombie, {topic: [0]})
    zombie = end(a, zombie, True)
    add_partitions(a, zombie, {topic: [0]})
    successor = init(a, key, version)
    play.note("epochs in between", successor["producer_epoch"] - zombie["producer_epoch"])
    a.ask("end_txn", 5, committed=True, **zombie)
    add_partitions(a, successor, {topic: [0]})
    end(a, successor, True)


@transcript(rows=("O19",))
def transactions_are_described(play: Play) -> None:
    a, topic = play.connect(), play.topic(partitions=2)
    open_one, done = init(a, play.unique("open")), init(a, play.unique("done"))
    add_partitions(a, open_one, {topic: [0, 1]})
    add_partitions(a, done, {topic: [0]})
    a.ask_until(passed, "end_txn", 3, committed=True, **done)
    a.ask_until(passed, "end_txn", 3, committed=True, **done)
    ids = [each["transactional_id"] for each in (open_one, done)]
    hidden = ("transaction_start_time",)
    unordered = ("transaction_states", "topics", "partitions")
    asked = [*ids, play.unique("unseen"), ""]
    a.ask("describe_transactions", 0, transactional_ids=asked, ignore=hidden, unordered=unordered)
    a.ask("describe_transactions", 0, transactional_ids=[])


@transcript(rows=("O19",), cases={"v0": 0, "v1": 1, "v2": 2})
def transactions_are_listed(play: Play, version: int) -> None:
    """Filters: states, producer ids, and by version the time that a transaction is open and a pattern."""
    a, topic = play.connect(), play.topic()
    first, second = (init(a, play.unique(name)) for name in ("first", "second"))
    numbers = [first["producer_id"], second["producer_id"]]
    add_partitions(a, second, {topic: [0]})

    def listed(**fields: Any) -> None:
        asked = {"producer_id_filters": numbers} | fields
        a.ask(
            "list_transactions", version, unordered=("transaction_states", "unknown_state_filters"), **asked
        )

    listed()
    listed(producer_id_filters=numbers[:1])
    for states in (
        ["Ongoing"],
        ["Empty", "Ongoing"],
        ["ongoing"],
        ["Nonsense", "Empty"],
        ["Nonsense"],
        ["Dead"],
    ):
        listed(state_filters=states)
    if version >= 1:
        listed(duration_filter=3_600_000)
        listed(duration_filter=-1)
        listed(duration_filter=-7)
    if version >= 2:
        listed(transactional_id_pattern=first["transactional_id"])
        listed(transactional_id_pattern="first")
        listed(transactional_id_pattern="first.*")
        listed(transactional_id_pattern="")
        listed(transactional_id_pattern="(")


@transcript(rows=("O18",))
def an_epoch_before_the_present_one_ends_nothing_new(play: Play) -> None:
    """A retry counts until the producer has begun something else, or another one has its id."""
    a, topic, key = play.connect(), play.topic(), play.unique("tx")
    producer = init(a, key)
    add_partitions(a, producer, {topic: [0]})
    after = end(a, producer, True)
    add_partitions(a, after, {topic: [0]})
    for committed in (True, False):
        a.ask("end_txn", 5, committed=committed, **producer)
    last = end(a, after, True)
    successor = init(a, key)
    for committed in (True, False):
        a.ask("end_txn", 5, committed=committed, **last)
    end(a, successor, False)


@transcript(rows=("O18",), cases={f"v{version}": version for version in (3, 4, 5)})
def a_producer_recovers_from_its_open_transaction(play: Play, version: int) -> None:
    """KIP-360: the abort gives the next epoch, which is told to who had the one before, again and again."""
    a, topic = play.connect(), play.topic()
    producer = init(a, play.unique("tx"))
    add_partitions(a, producer, {topic: [0]})
    recovered = init(a, **producer, version=version)
    play.note("epochs in between", recovered["producer_epoch"] - producer["producer_epoch"])
    init(a, **producer, version=version)
    add_partitions(a, producer, {topic: [0]})
    add_partitions(a, recovered, {topic: [0]})
    for committed in (True, False):
        end(a, producer, committed)
    after = end(a, recovered, True)
    play.note("epochs in between", after["producer_epoch"] - recovered["producer_epoch"])
    for who in (recovered, after):
        init(a, **who, version=version)


@transcript(rows=("O18",), cases={"by a new producer": False, "by time": True})
def a_producer_recovers_whose_transaction_was_aborted(play: Play, by_time: bool) -> None:
    """Before anybody has its id: the abort's epoch is given to it, and the next one to a new producer."""
    a, topic, key = play.connect(), play.topic(), play.unique("tx")
    producer = init(a, key, transaction_timeout=1 if by_time else 60_000)
    add_partitions(a, producer, {topic: [0]})
    if not by_time:
        a.ask("init_producer_id", 4, transactional_id=key)

    def is_aborted() -> bool:
        told = a.quietly("describe_transactions", 0, transactional_ids=[key]).transaction_states[0]
        return bool(told.transaction_state == "CompleteAbort")

    play.until(is_aborted, "the abort")
    for committed in (True, False):
        a.ask("end_txn", 5, committed=committed, **producer)
    a.ask("end_txn", 4, committed=False, **producer)
    recovered = init(a, **producer)
    play.note("epochs in between", recovered["producer_epoch"] - producer["producer_epoch"])
    successor = init(a, key)
    play.note("epochs in between", successor["producer_epoch"] - recovered["producer_epoch"])
    init(a, **producer)
