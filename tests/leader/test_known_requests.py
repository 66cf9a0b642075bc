"""Commits and fetches that a connection repeats: they are recognised by their bytes, and all comes of them
that comes of the same ones when they are decoded and decided in full."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import uvloop

from actors.catalog.codec import decode
from actors.catalog.headers import parse_header
from actors.ground.contract import Request
from actors.ground.features import GROUPD_VERSION, Features
from actors.ground.identity import ClientIdentity
from actors.ground.image import MetadataImage, TopicImage
from actors.ground.limits import KNOWN_REQUEST_BYTES_MAX, KNOWN_REQUESTS_MAX
from actors.ground.release import LEVEL_MAX
from actors.ground.settings import GroupSettings
from actors.leader.group_server import GroupServer, Share
from actors.leader.known_requests import WASTED_MAX, KnownCommit, KnownFetch, KnownRequests
from actors.metrics.counts import ApiCounts
from actors.network.wire import parse_answer, request_frame
from actors.protocol.messages import OffsetCommitRequest
from actors.protocol.partitioning import Partitioning
from tests.coordinator.alone import Log, new_replica
from tests.coordinator.shards import new_shard
from tests.leader.asking import Line
from tests.leader.lane_pair import ALLOWED, ClassicMember, Pair

CLIENT = ClientIdentity("/127.0.0.1", "127.0.0.1:1")
VERSIONS = range(6, 11)
IDS = {"orders": UUID(int=1), "fleeting": UUID(int=2), "é" * 60: UUID(int=3)}
SEEDS = 6
STEPS = 150


class _Log(Log):
    """A log that keeps what is proposed."""

    def __init__(self) -> None:
        super().__init__()
        self.commands: list[bytes] = []

    def propose(self, command: bytes) -> int:
        self.commands.append(command)
        return super().propose(command)


class Leader:
    """A leader with one connection, on which it `knows` commits, or decodes all of them."""

    def __init__(self, *, knows: bool) -> None:
        self.now_ms = 1_000
        self.answers: list[bytes] = []
        self.events: list[Any] = []
        self.line = Line(CLIENT, self.answers.append)
        self.repeated: Counter[type] = Counter()
        self._knows = knows
        settings = GroupSettings(group_initial_rebalance_delay_ms=0, group_rebalance_batch_max_ms=0)
        self.replica = new_replica(
            lambda: new_shard(settings),
            lambda token, body: self.server.release(token, body),
            on_events=self.events.extend,
        )
        self.server = GroupServer(self.replica, Share(0, lambda: Partitioning(1)), lambda: self.now_ms)
        self.log = self.replica.log = _Log()
        self.replica.on_leading(Log.term)

    def learn(self, image: MetadataImage) -> None:
        self.server._gate.take(image)
        self.replica.on_metadata(image, self.now_ms)

    def serve(self, frame: bytes) -> None:
        """Serve a frame as `ClientService` does, without the commit of what it decides."""
        commits = self.line.known if self._knows else None
        known = None if commits is None else commits.find(frame, self.server._gate.image)
        if known is not None:
            self.repeated[type(known)] += 1
            answered = self.server.again(known, frame, self.line.answer)
        else:
            header, body_offset = parse_header(frame)
            answered, _ = self.server.serve(header, frame, body_offset, self.line)
        if answered is not None:
            self.answers.append(answered)

    def commit(self) -> None:
        self.replica.flush()
        while self.log.committed_index < self.log.last_index:
            self.log.committed_index += 1
            self.replica.apply(self.log.committed_index, self.log.term, b"")
            self.replica.flush()

    def ask(self, api: str, version: int, **fields: Any) -> dict[str, Any]:
        self.serve(request_frame(api, version, 7, "test", fields)[4:])
        self.commit()
        return parse_answer(api, version, self.answers.pop()[4:])[1]

    @property
    def told(self) -> tuple[Any, ...]:
        """Return all that came of what was served."""
        counted = {key: (api.fine, api.errors) for key, api in self.server.counts.by_api.items()}
        return self.answers, self.log.commands, self.events, counted


def image_of(version: int, *, has_fleeting: bool = True, partitions: int = 40) -> MetadataImage:
    names = [name for name in IDS if has_fleeting or name != "fleeting"]
    topics = tuple(TopicImage(IDS[name].bytes, name, (0,) * partitions) for name in names)
    features = Features(1, ((GROUPD_VERSION, LEVEL_MAX),))
    return MetadataImage(version=version, topics=topics, features=features)


def commit_frame(
    version: int, asked: dict[str, list[tuple[int, int]]], correlation_id: int = 1, **named: Any
) -> bytes:
    """Make an OffsetCommit of `topic -> [(partition, offset)]` without metadata."""
    topics = [
        {
            **({"topic_id": IDS[topic]} if version >= 10 else {"name": topic}),
            "partitions": [
                {
                    "partition_index": partition,
                    "committed_offset": offset,
                    "committed_leader_epoch": offset % 5 - 1,
                    "committed_metadata": "",
                }
                for partition, offset in rows
            ],
        }
        for topic, rows in asked.items()
    ]
    fields = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "", **named}
    return request_frame("offset_commit", version, correlation_id, "test", {**fields, "topics": topics})[4:]


def learnt(frame: bytes) -> tuple[KnownRequests, KnownCommit | None]:
    """Have a connection remember a commit."""
    header, body_offset = parse_header(frame)
    request = Request(1, 8, header.api_version, "test", "/h", decode(header, frame, body_offset))
    commits = KnownRequests(image_of(1))
    return commits, commits.learn_commit(frame, body_offset, request, ApiCounts())


def read(frame: bytes) -> OffsetCommitRequest:
    header, body_offset = parse_header(frame)
    body: OffsetCommitRequest = decode(header, frame, body_offset)  # type: ignore[assignment]
    return body


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("sizes", [(1,), (2,), (10,), (1, 7, 1), (130,)], ids=str)
def test_a_commit_of_the_same_partitions_is_read_as_if_it_were_decoded(
    version: int, sizes: tuple[int, ...]
) -> None:
    chance = random.Random(1)
    named = {"group_id": "gruppe-é", "member_id": "m" * 40, "generation_id_or_member_epoch": 7}
    for round_number in range(20):
        asked = {
            topic: [(partition, chance.randint(-(2**63), 2**63 - 1)) for partition in range(size)]
            for topic, size in zip(IDS, sizes, strict=False)
        }
        frame = commit_frame(version, asked, chance.randint(-(2**31), 2**31 - 1), **named)
        if round_number == 0:
            commits, known = learnt(frame)
            assert known is not None
        assert commits.find(frame, commits.image) is known
        assert known is not None
        body = known.request(9, frame).body
        assert body._replace(known=None) == read(frame)
        assert [type(rows) for _, rows in body.topics] == [type(rows) for _, rows in read(frame).topics]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_bit_that_differs_anywhere_makes_another_commit_or_only_other_offsets(version: int) -> None:
    frame = commit_frame(version, {"orders": [(0, 5), (3, 6)], "fleeting": [(1, 7)]})
    commits, known = learnt(frame)
    assert known is not None
    same = 0
    for at in range(len(frame)):
        for bit in range(8):
            other = bytearray(frame)
            other[at] ^= 1 << bit
            if commits.find(bytes(other), commits.image) is None:
                continue
            same += 1
            assert known.request(1, bytes(other)).body._replace(known=None) == read(bytes(other))
    assert same == 8 * (4 + 3 * 12), "correlation id, offsets and leader epochs"
    for other in (frame + b"\0", frame[:-1], b"", frame[4:]):
        assert commits.find(other, commits.image) is None


def test_what_is_not_plain_is_not_remembered() -> None:
    row = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}
    fields = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": ""}
    for text in (None, "x"):
        topics = [{"name": "orders", "partitions": [{**row, "committed_metadata": text}]}]
        frame = request_frame("offset_commit", 9, 1, "test", {**fields, "topics": topics})[4:]
        assert learnt(frame)[1] is None
    plain = commit_frame(9, {"orders": [(0, 1)]})
    assert learnt(plain)[1] is not None
    assert learnt(plain + b"\0")[1] is None, "bytes behind the request"
    assert learnt(commit_frame(9, {"orders": []}))[1] is None


def test_a_connection_remembers_a_few_commits_and_gives_up_on_a_client_that_repeats_none() -> None:
    commits, _ = learnt(commit_frame(9, {"orders": [(0, 1)]}, group_id="first"))
    frames = [commit_frame(9, {"orders": [(0, 1)]}, group_id=f"g{n}") for n in range(KNOWN_REQUESTS_MAX)]
    for frame in frames:
        header, body_offset = parse_header(frame)
        request = Request(1, 8, header.api_version, "test", "/h", read(frame))
        assert commits.learn_commit(frame, body_offset, request, ApiCounts()) is not None
    assert commits.find(commit_frame(9, {"orders": [(0, 1)]}, group_id="first"), commits.image) is None
    assert all(commits.find(frame, commits.image) is not None for frame in frames)
    large = commit_frame(9, {"orders": [(n, 1) for n in range(KNOWN_REQUEST_BYTES_MAX // 18)]})
    assert learnt(large)[1] is None
    header, body_offset = parse_header(frames[0])
    for number in range(KNOWN_REQUESTS_MAX + WASTED_MAX + 1):
        frame = commit_frame(9, {"orders": [(number, 1)]}, group_id="fickle")
        request = Request(1, 8, header.api_version, "test", "/h", read(frame))
        found = commits.learn_commit(frame, parse_header(frame)[1], request, ApiCounts())
    assert found is None


class Mess:
    """What clients of one connection do, and what happens meanwhile, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.leaders = Leader(knows=True), Leader(knows=False)
        self.version = 0
        self.members: dict[str, tuple[str, int]] = {}
        self.asked: list[tuple[int, str, dict[str, list[int]]]] = []
        """Version, group and partitions of the commits that clients repeat."""

    def begin(self) -> None:
        self.image()
        for group_id in ("classic-1", "classic-2"):
            self.join(group_id)
        for number in range(7):
            group_id = ("classic-1", "classic-2", "simple")[number % 3]
            topics = self.chance.sample(list(IDS), self.chance.randint(1, 2))
            partitions = {
                topic: self.chance.sample(range(40), self.chance.choice((1, 3, 12))) for topic in topics
            }
            self.asked.append((self.chance.choice(VERSIONS), group_id, partitions))

    def step(self) -> None:
        happens = (self.repeat, self.fetch, self.spoil, self.image, self.rejoin, self.turn)
        self.chance.choices(happens, (30, 10, 4, 2, 1, 6))[0]()
        for leader in self.leaders:
            leader.now_ms += 1

    def frame(self) -> bytes:
        version, group_id, partitions = self.chance.choice(self.asked)
        member_id, generation = self.members.get(group_id, ("", -1))
        first = self.chance.randint(0, 1_000)
        asked = {topic: [(number, first + number) for number in each] for topic, each in partitions.items()}
        return commit_frame(
            version,
            asked,
            self.chance.randint(-9, 9),
            group_id=group_id,
            member_id=member_id,
            generation_id_or_member_epoch=generation - (self.chance.random() < 0.1),
        )

    def repeat(self) -> None:
        frame = self.frame()
        for leader in self.leaders:
            leader.serve(frame)

    def fetch(self) -> None:
        """Fetch what a commit commits, twice or more."""
        version, group_id, partitions = self.chance.choice(self.asked)
        topics = [
            {
                **({"topic_id": IDS[topic]} if version >= 10 else {"name": topic}),
                "partition_indexes": numbers,
            }
            for topic, numbers in partitions.items()
        ]
        group = {"group_id": group_id, "topics": topics}
        fields = {"groups": [group], "require_stable": False} if version >= 8 else group
        for correlation_id in range(self.chance.randint(2, 4)):
            frame = request_frame("offset_fetch", version, correlation_id, "test", fields)[4:]
            for leader in self.leaders:
                leader.serve(frame)

    def spoil(self) -> None:
        """One bit differs somewhere in the body."""
        frame = bytearray(self.frame())
        frame[self.chance.randrange(20, len(frame))] ^= 1 << self.chance.randrange(8)
        for leader in self.leaders:
            try:
                leader.serve(bytes(frame))
            except Exception as error:
                leader.events.append(type(error))

    def image(self) -> None:
        self.version += 1
        image = image_of(
            self.version,
            has_fleeting=self.chance.random() < 0.8,
            partitions=self.chance.choice((5, 40, 40, 40)),
        )
        for leader in self.leaders:
            leader.learn(image)

    def rejoin(self) -> None:
        self.join(self.chance.choice(list(self.members)))

    def join(self, group_id: str) -> None:
        """Have a new member be the group's only one, in its next generation."""
        if group_id in self.members:
            member_id, _ = self.members[group_id]
            for leader in self.leaders:
                leader.ask("leave_group", 2, group_id=group_id, member_id=member_id)
        for leader in self.leaders:
            joined = leader.ask(
                "join_group",
                3,
                group_id=group_id,
                session_timeout=45_000,
                rebalance_timeout=60_000,
                member_id="",
                protocol_type="consumer",
                protocols=[{"name": "range", "metadata": b""}],
            )
            named = {key: joined[key] for key in ("member_id", "generation_id")}
            leader.ask("sync_group", 2, group_id=group_id, **named, assignments=[])
            self.members[group_id] = (joined["member_id"], joined["generation_id"])

    def turn(self) -> None:
        for leader in self.leaders:
            leader.commit()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_all_that_comes_of_a_known_commit_comes_of_it_unknown(seed: int) -> None:
    """Answers, entries of the log, events and counts, whatever happens to groups and topics meanwhile."""
    mess = Mess(seed)
    mess.begin()
    for _ in range(STEPS):
        mess.step()
        knowing, other = mess.leaders
        assert knowing.told == other.told
    mess.turn()
    assert knowing.told == other.told
    assert knowing.repeated[KnownCommit] > STEPS // 10
    assert knowing.repeated[KnownFetch] > STEPS // 20
    errors = other.server.counts.by_api[8].errors
    assert errors, "some were refused"


def test_a_new_image_has_the_next_commit_decoded() -> None:
    """Rights, and whose group it is, come with the image."""
    leader = Leader(knows=True)
    leader.learn(image_of(1))
    frame = commit_frame(9, {"orders": [(0, 1), (1, 1)]})
    for _ in range(3):
        leader.serve(frame)
    assert leader.repeated.total() == 2
    leader.learn(image_of(2))
    leader.serve(frame)
    assert leader.repeated.total() == 2
    leader.serve(frame)
    assert leader.repeated.total() == 3


def test_a_fetch_is_known_when_it_comes_for_the_third_time() -> None:
    """Most members make one fetch and no more, for which nothing is to be kept."""
    leader = Leader(knows=True)
    leader.learn(image_of(1))
    leader.serve(commit_frame(9, {"orders": [(0, 5), (1, 6)]}))
    leader.commit()
    group = {"group_id": "g", "topics": [{"name": "orders", "partition_indexes": [1, 0, 2]}]}
    for number in range(4):
        frame = request_frame("offset_fetch", 9, number, "test", {"groups": [group], "require_stable": True})
        leader.serve(frame[4:])
    assert leader.repeated[KnownFetch] == 2
    told = [parse_answer("offset_fetch", 9, answer[4:]) for answer in leader.answers[1:]]
    assert [number for number, _ in told] == [0, 1, 2, 3]
    assert all(fields == told[0][1] for _, fields in told)


def test_an_idle_connection_keeps_no_older_image(tmp_path: Path) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_push_an_image(tmp_path))


async def _push_an_image(directory: Path) -> None:
    pair = Pair(directory)
    pair.push(ALLOWED)
    member = ClassicMember(pair, "group")
    await member.join()
    row = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1}
    asked = {
        "group_id": "group",
        "member_id": member.member_id,
        "generation_id_or_member_epoch": member.generation,
        "topics": [{"name": "orders", "partitions": [{**row, "committed_metadata": ""}]}],
    }
    assert (await member.ask("offset_commit", 9, **asked))["topics"][0]["partitions"][0]["error_code"] == 0
    (connection,) = pair.servers[0].clients.table.connections()
    assert connection.known is not None
    pair.push(ALLOWED)
    assert connection.known is None
    await pair.stop()
