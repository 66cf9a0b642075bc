"""A coordinator that takes Kafka's log over, and how a test has it done."""

from __future__ import annotations

from typing import Any

from actors.catalog.codec import decode, encode
from actors.catalog.headers import parse_header
from actors.coordinator.ground.state import Home
from actors.coordinator.shard import CoordinatorShard
from actors.coordinator.take_over.inside import (
    DROP_TAKEN,
    RELEASE,
    RETAKE,
    SEAL_SERVED,
    SERVE,
    TAKE,
    UNSEAL,
    DropTakenRequest,
    LogPiece,
    ReleaseRequest,
    RetakeRequest,
    SealServedRequest,
    ServeRequest,
    TakenResponse,
    TakeRequest,
    UnsealRequest,
)
from actors.ground.features import FEATURES, GROUPD_VERSION, Features
from actors.ground.image import MetadataImage, TopicImage
from actors.ground.settings import GroupSettings
from actors.network.wire import parse_answer, request_frame
from actors.upstream.offsets_log.reading import pieces
from tests.coordinator.driver import image_of
from tests.coordinator.transactions.driver import TransactionDriver
from tests.upstream.offsets_log.logs import KafkaLog

TOPIC_ID = b"the log's topic."
NEWEST = Features(1, ((GROUPD_VERSION, FEATURES[GROUPD_VERSION].high),))


def newest(*topics: TopicImage) -> MetadataImage:
    """Return an image with the level at which groups can be taken over."""
    return MetadataImage(version=1, topics=topics, features=NEWEST)


class Taker(TransactionDriver):
    """The leader of an offsets partition whose groups are Kafka's still."""

    keeps_log = True

    def __init__(
        self, image: MetadataImage | None = None, settings: GroupSettings | None = None, partition: int = 0
    ) -> None:
        self._partition = partition
        super().__init__(newest(*image_of(1, t=8).topics.values()) if image is None else image, settings)

    def new_shard(self) -> CoordinatorShard:
        home = Home(self._partition, awaits_groups=True)
        return CoordinatorShard(self.settings, self.new_id, self.image, home=home)

    @property
    def next_offset(self) -> int:
        taken = self.state.from_kafka.log
        return 0 if taken is None else taken.next_offset

    def inside(self, api_key: int, body: Any) -> TakenResponse:
        """Ask what only the tier may ask. Everything that was decided is committed with it."""
        token = self.send(api_key, body, 0)
        while token not in self.replies:
            self.replica.run_timers(self.now_ms)
        self.commit()
        answer = self.replies[token]
        assert isinstance(answer, TakenResponse)
        return answer

    def take_piece(
        self, piece: LogPiece, topic_id: bytes = TOPIC_ID, high_watermark: int = 0
    ) -> TakenResponse:
        return self.inside(TAKE, TakeRequest(topic_id, piece, high_watermark))

    def take(self, fetched: bytes, high_watermark: int = 0) -> None:
        """Take what a Fetch from the next offset on has brought."""
        for piece in pieces(fetched, self.next_offset):
            answer = self.take_piece(piece, high_watermark=high_watermark)
            assert (answer.error_code, answer.next_offset) == (0, piece.next_offset), answer

    def serve(
        self, log_end: int | None = None, topic_id: bytes = TOPIC_ID, leader_epoch: int = -1
    ) -> TakenResponse:
        end = self.next_offset if log_end is None else log_end
        return self.inside(SERVE, ServeRequest(topic_id, end, leader_epoch))

    def retake(self, leader_epoch: int, topic_id: bytes = TOPIC_ID) -> TakenResponse:
        return self.inside(RETAKE, RetakeRequest(topic_id, leader_epoch))

    def drop_taken(self, owed_offset: int | None = None) -> TakenResponse:
        return self.inside(DROP_TAKEN, DropTakenRequest(owed_offset))

    def seal(self) -> TakenResponse:
        return self.inside(SEAL_SERVED, SealServedRequest())

    def release(self, leader_epoch: int) -> TakenResponse:
        return self.inside(RELEASE, ReleaseRequest(leader_epoch))

    def unseal(self) -> TakenResponse:
        return self.inside(UNSEAL, UnsealRequest())

    def begin_to_drop(self, owed_offset: int | None = None) -> None:
        """Commit the first step of a removal, and none of the others."""
        self.send(DROP_TAKEN, DropTakenRequest(owed_offset), 0)
        self.replica.run_timers(self.now_ms)
        self.commit()

    def take_over(self, log: KafkaLog) -> None:
        """Take a whole log, and serve its groups."""
        self.take(log.raw())
        assert self.serve(log.end).error_code == 0

    def serve_raw(self, api: str, version: int, client_id: str = "raw", **fields: Any) -> dict[str, Any]:
        """Answer a request as it comes on a client's connection, with the bytes that the client would get."""
        frame = request_frame(api, version, 7, client_id, fields)[4:]
        header, body_offset = parse_header(frame)
        answer = self.ask(header.api_key, decode(header, frame, body_offset), version, client_id)
        return parse_answer(api, version, encode(header.api_key, version, 7, answer)[4:])[1]
