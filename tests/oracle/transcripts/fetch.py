"""Fetch: its versions, and fetch sessions (W34, W35)."""

from __future__ import annotations

from typing import Any

from tests.oracle.logs import NOBODYS_TOPIC, fetch, filled, forgotten, log_topic, wanted
from tests.oracle.play import Play
from tests.oracle.registry import transcript
from tests.topics.batches import batch

VERSIONS = {f"v{version}": version for version in (4, 5, 7, 9, 11, 12, 13, 15, 16, 18)}
SESSIONS = {f"v{version}": version for version in (7, 12, 13, 18)}
BY_ID = {f"v{version}": version for version in (13, 18)}


def _stranger(play: Play) -> dict[str, Any]:
    topic = wanted(play, play.unique("none"), [0])
    return topic | {"topic_id": NOBODYS_TOPIC}


@transcript(rows=("W34",), cases=VERSIONS)
def records_and_partitions_that_there_are_not(play: Play, version: int) -> None:
    topic, a = log_topic(play, partitions=2), play.connect("a")
    filled(play, topic, {0: batch(b"a", b"b")})
    fetch(a, version, [wanted(play, topic, [0, 1])])
    fetch(a, version, [wanted(play, topic, {0: 1})], isolation_level=1)
    fetch(a, version, [wanted(play, topic, {0: 2})])
    fetch(a, version, [wanted(play, topic, {0: 3, 1: -1, 7: 0})])
    fetch(a, version, [_stranger(play), wanted(play, topic, [1])])
    fetch(a, version, [])


@transcript(rows=("W34",), cases={f"v{version}": version for version in (4, 7, 12, 13, 18)})
def limits_and_levels(play: Play, version: int) -> None:
    """The first batch comes whatever its size; a negative size and an unknown isolation level do not pass."""
    topic, a = log_topic(play, partitions=2), play.connect("a")
    filled(play, topic, {0: batch(b"a"), 1: batch(b"b")})
    filled(play, topic, {0: batch(b"c"), 1: batch(b"d")})
    fetch(a, version, [wanted(play, topic, [0], partition_max_bytes=0)])
    fetch(a, version, [wanted(play, topic, [0], partition_max_bytes=-1)])
    fetch(a, version, [wanted(play, topic, [0])], max_bytes=0)
    fetch(a, version, [wanted(play, topic, [0, 1])], isolation_level=2)


@transcript(rows=("W34",), cases={f"v{version}": version for version in (9, 12, 13, 18)})
def leader_epochs(play: Play, version: int) -> None:
    """Any negative epoch is none."""
    topic, a = log_topic(play), play.connect("a")
    filled(play, topic, {0: batch(b"a", b"b")})
    for epoch in (-2, -1, 0, 1):
        fetch(a, version, [wanted(play, topic, [0], current_leader_epoch=epoch)])
    for fetched, offset in ((-2, 0), (0, 0), (0, 2), (0, 3), (1, 0), (1, 9)):
        asked = wanted(play, topic, {0: offset}, last_fetched_epoch=fetched)
        if version >= 12:
            fetch(a, version, [asked], max_wait=5_000)


@transcript(rows=("W34",), cases={f"v{version}": version for version in (12, 18)})
def partition_that_is_named_twice(play: Play, version: int) -> None:
    topic, a = log_topic(play, partitions=2), play.connect("a")
    filled(play, topic, {0: batch(b"a")})
    twice = wanted(play, topic, [0])
    twice["partitions"] = [*twice["partitions"], *wanted(play, topic, {0: 1})["partitions"]]
    fetch(a, version, [twice])
    fetch(a, version, [wanted(play, topic, [0]), wanted(play, topic, [1])])


@transcript(rows=("W34",))
def zero_id(play: Play) -> None:
    topic, a = log_topic(play), play.connect("a")
    fetch(a, 18, [wanted(play, topic, [0]) | {"topic_id": None}])


@transcript(rows=("W35",), cases=SESSIONS)
def session_and_its_news(play: Play, version: int) -> None:
    topic, other, a = log_topic(play, partitions=3), log_topic(play, "u"), play.connect("a")
    filled(play, topic, {0: batch(b"a")})
    begun = fetch(a, version, [wanted(play, topic, [0, 1]), wanted(play, other, [0])], session_epoch=0)

    def go_on(epoch: int, *topics: dict[str, Any], **fields: Any) -> Any:
        return fetch(a, version, topics, session_id=begun.session_id, session_epoch=epoch, **fields)

    go_on(1)
    go_on(2, wanted(play, topic, {0: 1, 2: 0}))
    go_on(3)
    filled(play, other, {0: batch(b"b")})
    go_on(4)
    go_on(5, wanted(play, other, {0: 1}))
    go_on(6)
    filled(play, topic, {1: batch(b"c"), 2: batch(b"d")})
    go_on(7, forgotten_topics_data=[forgotten(play, topic, 1, 9), forgotten(play, other, 0)])
    go_on(8)
    go_on(9, wanted(play, topic, {2: 1}))
    play.admin.quietly(
        "delete_records", 2, topics=[{"name": topic, "partitions": [{"partition_index": 2, "offset": 1}]}]
    )
    go_on(10)
    go_on(11)


@transcript(rows=("W35",), cases=SESSIONS)
def partitions_of_a_session_that_there_are_not(play: Play, version: int) -> None:
    """Each is told with every answer."""
    topic, other, a = log_topic(play), log_topic(play, "u"), play.connect("a")
    asked = [wanted(play, topic, [7]), wanted(play, other, [0]), _stranger(play)]
    begun = fetch(a, version, asked, session_epoch=0)
    for epoch in (1, 2):
        fetch(a, version, [], session_id=begun.session_id, session_epoch=epoch)
    gone = _stranger(play) | {"partitions": [0]}
    fetch(
        a,
        version,
        [],
        session_id=begun.session_id,
        session_epoch=3,
        forgotten_topics_data=[gone, forgotten(play, topic, 7)],
    )
    fetch(a, version, [], session_id=begun.session_id, session_epoch=4)


@transcript(rows=("W35",), cases=SESSIONS)
def sessions_and_epochs_that_are_wrong(play: Play, version: int) -> None:
    topic, a = log_topic(play), play.connect("a")
    asked = [wanted(play, topic, [0])]
    begun = fetch(a, version, asked, session_epoch=0)
    for session_id, epoch in ((begun.session_id, 2), (begun.session_id, -2), (begun.session_id, 1)):
        fetch(a, version, [], session_id=session_id, session_epoch=epoch)
    fetch(a, version, [], session_id=begun.session_id, session_epoch=1)
    for epoch in (1, -2, 0, -1):
        answer = a.quietly(
            "fetch",
            version,
            replica_id=-1,
            max_bytes=1_000,
            session_id=begun.session_id ^ 1,
            session_epoch=epoch,
            topics=asked,
        )
        play.note(f"epoch {epoch} of another id", [answer.error_code, answer.session_id > 0])
    fetch(a, version, asked, session_epoch=5)
    other = 12 if version >= 13 else 13
    fetch(a, other, [], session_id=begun.session_id, session_epoch=2)
    fetch(a, version, [], session_id=begun.session_id, session_epoch=2)


@transcript(rows=("W35",), cases=SESSIONS)
def names_and_ids_that_are_mixed_in_a_wrong_epoch(play: Play, version: int) -> None:
    """The epoch is looked at first."""
    topic, a = log_topic(play), play.connect("a")
    begun = fetch(a, version, [wanted(play, topic, [0])], session_epoch=0)
    other = 12 if version >= 13 else 13
    for epoch in (7, 1):
        fetch(a, other, [], session_id=begun.session_id, session_epoch=epoch)


@transcript(rows=("W35",), cases=SESSIONS)
def session_that_forgets_what_it_is_told_to_follow(play: Play, version: int) -> None:
    """A session without partitions ends; what its last request names is answered as without a session."""
    topic, a = log_topic(play, partitions=2), play.connect("a")
    for forgets in ((0,), (0, 1)):
        begun = fetch(a, version, [wanted(play, topic, [1])], session_epoch=0)
        gone = [forgotten(play, topic, *forgets)]
        session = {"session_id": begun.session_id, "forgotten_topics_data": gone}
        fetch(a, version, [wanted(play, topic, [0])], session_epoch=1, **session)
        fetch(a, version, [], session_id=begun.session_id, session_epoch=2)


@transcript(rows=("W34", "W35"), cases=SESSIONS)
def isolation_level_that_there_is_not_in_a_session(play: Play, version: int) -> None:
    """The session that the request names is told back, and goes on if it is there; none begins."""
    topic, a = log_topic(play, partitions=2), play.connect("a")
    asked = [wanted(play, topic, [0, 1])]
    fetch(a, version, asked, session_epoch=0, isolation_level=2)
    begun = fetch(a, version, asked, session_epoch=0)
    for epoch, topics, level in ((1, [], 2), (2, [wanted(play, topic, {1: 0})], 2), (3, [], 0)):
        session = {"session_id": begun.session_id, "session_epoch": epoch}
        fetch(a, version, topics, isolation_level=level, **session)
    fetch(a, version, asked, session_id=begun.session_id, session_epoch=-1, isolation_level=2)
    fetch(a, version, [], session_id=begun.session_id, session_epoch=4)


@transcript(rows=("W35",), cases=SESSIONS)
def sessions_that_end(play: Play, version: int) -> None:
    topic, a = log_topic(play), play.connect("a")
    asked = [wanted(play, topic, [0])]
    first, second, third = (fetch(a, version, asked, session_epoch=0).session_id for _ in range(3))
    fetch(
        a,
        version,
        [],
        session_id=first,
        session_epoch=1,
        forgotten_topics_data=[forgotten(play, topic, 0)],
        max_wait=5_000,
    )
    fetch(a, version, asked, session_id=second, session_epoch=-1)
    fetch(a, version, asked, session_id=third, session_epoch=0)
    for session_id in (first, second, third):
        fetch(a, version, [], session_id=session_id, session_epoch=1)
    fetch(a, version, [], session_epoch=0)


@transcript(rows=("W35",), cases={"v12": 12, "v18": 18})
def topic_that_is_deleted_and_made_again(play: Play, version: int) -> None:
    """A session of ids remembers the name that its id had."""
    topic, a = log_topic(play), play.connect("a")
    asked = [wanted(play, topic, [0])]
    begun = fetch(a, version, asked, session_epoch=0)
    play.delete_topic(topic)
    fetch(a, version, [], session_id=begun.session_id, session_epoch=1)
    fetch(a, version, asked)
    play.create_log(topic)

    def knows() -> bool:
        """Whether the leader knows its new topic already, which is asked without the session."""
        told = a.quietly("fetch", version, replica_id=-1, max_bytes=1_000, topics=[wanted(play, topic, [0])])
        return [each.error_code.value for each in told.responses for each in each.partitions] == [0]

    play.until(knows, "the leader of a topic that was made again")
    for epoch in (2, 3):
        fetch(a, version, [], session_id=begun.session_id, session_epoch=epoch)


@transcript(rows=("W35",), cases=BY_ID)
def turns_of_partitions(play: Play, version: int) -> None:
    """An answer with room for one batch has another partition's each time."""
    topic, a = log_topic(play, partitions=3), play.connect("a")
    for number in range(3):
        filled(play, topic, {number: batch(b"v")})
    size = len(batch(b"v"))
    begun = fetch(a, version, [wanted(play, topic, [0, 1, 2])], session_epoch=0, max_bytes=size)
    for epoch in range(1, 5):
        fetch(a, version, [], session_id=begun.session_id, session_epoch=epoch, max_bytes=size)
