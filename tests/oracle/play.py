"""What a transcript holds in its hands: connections to one server, and the record of what was said."""

from __future__ import annotations

import dataclasses
import itertools
import secrets
import struct
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from actors.network.wire import message_class
from actors.protocol.java_hash import partition_for
from tests.oracle import normal
from tests.oracle.connection import Closed, Connection, NoAnswer, pause
from tests.oracle.profiles import OFFSETS_PARTITIONS, password_of
from tests.oracle.requests import body, header, request_entity
from tests.protocol.answers import answer_reader

ANSWER_TIMEOUT_S = 10.0
ARRIVAL_S = 0.06
"""Time for a request to be read and parked, on a busy machine."""
CLOSED = "closed"
NO_ANSWER = "no answer"
Step = dict[str, Any]


class Broken(Exception):
    """The server hung up or kept silent where a transcript needs an answer to go on."""


@dataclasses.dataclass(frozen=True, slots=True)
class Address:
    """A server under test."""

    name: str
    host: str
    port: int
    login: str = ""
    """The user as whom connections log in unless they name another; with "" nobody has to log in."""

    @classmethod
    def of(cls, name: str, bootstrap: str, login: str = "") -> Address:
        host, _, port = bootstrap.rpartition(":")
        return cls(name, host, int(port), login)


class Play:
    """One run of one transcript against one server; `steps` is what is compared."""

    def __init__(self, server: Address) -> None:
        self.server = server
        self.steps: list[Step] = []
        self.names = normal.Names(f"-{secrets.token_hex(4)}")
        self._clients: list[Client] = []
        self._admin: Client | None = None

    def group(self, name: str = "g") -> str:
        """A group id that no other run uses; in the record it is `name`."""
        return name + self.names.token

    unique = group
    """Makes other names unique, too: transactional ids, users, resources."""

    def topic(self, name: str = "t", partitions: int = 1) -> str:
        """Create a topic and wait until the server knows it; returns its unique name."""
        unique = self.group(name)
        self.create_topic(unique, partitions)
        return unique

    def create_topic(self, unique: str, partitions: int = 1) -> None:
        """The same of a name that `unique` made before."""
        self.create_log(unique, partitions)
        for watcher in self.watchers():
            self.until(
                partial(self._is_assigned, unique, watcher), f"a group coordinator that knows {unique}"
            )

    def create_log(
        self, unique: str, partitions: int = 1, configs: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Create a topic that no group is to hear of: then nobody waits for its coordinators."""
        given = [{"name": name, "value": value} for name, value in configs.items()]
        topics = [{"name": unique, "num_partitions": partitions, "replication_factor": 1, "configs": given}]
        created = self.admin.quietly("create_topics", 7, topics=topics).topics[0]
        assert created.error_code.value == 0, created
        self.until(lambda: self._partitions(unique) == partitions, f"topic {unique}")
        self.names.know_topic(self.topic_id(unique), unique)

    def watchers(self) -> list[str]:
        """A group for each offsets partition: every coordinator hears of a topic by itself."""
        groups: dict[int, str] = {}
        numbers = itertools.count()
        while len(groups) < OFFSETS_PARTITIONS:
            group = self.unique(f"watcher-{next(numbers)}")
            groups.setdefault(partition_for(group, OFFSETS_PARTITIONS), group)
        return list(groups.values())

    def _is_assigned(self, unique: str, group: str) -> bool:
        """Whether the group's coordinator knows the topic: it hears of it a little after Metadata does. Asked
        with a member of a group that is deleted again."""
        watcher = {"group_id": group, "member_id": "watcher", "rebalance_timeout": 30_000}
        heartbeat = partial(self.admin.quietly, "consumer_group_heartbeat", 1, **watcher)
        told = heartbeat(member_epoch=0, subscribed_topic_names=[unique], topic_partitions=[])
        if told.error_code.value:
            return told.error_code.value not in (14, 15, 16)
        heartbeat(member_epoch=-1, topic_partitions=None)
        self.admin.quietly("delete_groups", 2, groups_names=[watcher["group_id"]])
        return told.assignment is not None and bool(told.assignment.topic_partitions)

    def topic_id(self, unique: str) -> Any:
        """The UUID of a topic of this run; None when there is no such topic."""
        asked = self.admin.quietly("metadata", 12, topics=[{"topic_id": None, "name": unique}])
        return asked.topics[0].topic_id

    def _partitions(self, unique: str) -> int:
        asked = self.admin.quietly("metadata", 12, topics=[{"topic_id": None, "name": unique}])
        return len(asked.topics[0].partitions)

    def delete_topic(self, unique: str) -> None:
        """Delete a topic, and wait until the server has forgotten it."""
        done = self.admin.quietly("delete_topics", 6, topics=[{"name": unique, "topic_id": None}])
        assert done.responses[0].error_code.value == 0, done
        self.until(lambda: self._partitions(unique) == 0, f"no topic {unique}")

    def connect(self, name: str = "a", client_id: str | None = "", user: str | None = "") -> Client:
        """A new connection, called `name` in the record; its client id is `name` too unless given. Where
        clients must log in it is the administrator's unless `user` is given; None: nobody's."""
        client = Client(self, name, name if client_id == "" else client_id)
        self._clients.append(client)
        if user is not None and (who := user or self.server.login):
            client.log_in(who)
        return client

    @property
    def admin(self) -> Client:
        """A connection for what the record does not show."""
        if self._admin is None:
            self._admin = self.connect("admin")
        return self._admin

    def note(self, what: str, value: Any) -> None:
        """Compare something that was worked out from answers: a property of what may differ."""
        self.steps.append({"note": what, "answer": normal.Reading(self.names).plain(value)})

    def until(self, holds: Callable[[], Any], what: str = "", deadline_s: float = ANSWER_TIMEOUT_S) -> Any:
        """Poll until it holds and return what it gave; the record shows nothing of it."""
        end = time.monotonic() + deadline_s
        while not (value := holds()):
            if time.monotonic() > end:
                raise Broken(f"not within {deadline_s:g} s: {what}")
            pause(0.01)
        return value

    def wait(self, seconds: float) -> None:
        """Let time pass: for rules of time alone, and only as long as needed."""
        pause(seconds)

    def close(self) -> None:
        for client in self._clients:
            client.close()


class Client:
    """A client with one connection. Its answers are kio's entities, as in `joined.member_id`."""

    def __init__(self, play: Play, name: str, client_id: str | None) -> None:
        self._play = play
        self.name = name
        self.client_id = client_id
        self._connection = Connection(play.server.host, play.server.port)
        self._correlation_ids = itertools.count(1)

    def ask(
        self,
        api: str,
        version: int,
        /,
        *,
        ignore: Collection[str] = (),
        unordered: Collection[str] = (),
        **fields: Any,
    ) -> Any:
        """Send a request and wait for its answer. `ignore` names fields of the answer, at any depth, that
        are not compared, `unordered` lists that are compared sorted."""
        parked = self._sent(api, version, fields, "asks")
        return parked.collected(ignore, unordered, ANSWER_TIMEOUT_S, parked.step)

    def send(self, api: str, version: int, /, **fields: Any) -> Parked:
        """Send a request whose answer is to come later: `collect` it. Returns when the server has had time
        to read it, so that what others ask next comes after it."""
        parked = self._sent(api, version, fields, "sends")
        pause(ARRIVAL_S)
        return parked

    def ask_until(
        self,
        holds: Callable[[Any], Any],
        api: str,
        version: int,
        /,
        *,
        ignore: Collection[str] = (),
        unordered: Collection[str] = (),
        **fields: Any,
    ) -> Any:
        """Ask again until the answer is right; the record has the last answer only."""
        end = time.monotonic() + ANSWER_TIMEOUT_S
        while True:
            entity = self.quietly(api, version, **fields)
            if holds(entity) or time.monotonic() > end:
                break
            pause(0.02)
        reading = normal.Reading(self._play.names)
        request = reading.plain(fields)
        step = {"client": self.name, "does": f"asks until it is so: {api} v{version}", "request": request}
        self._play.steps.append(step | said(self._play.names, api, entity, ignore, unordered))
        return entity

    def ask_bytes(self, content: bytes, deadline_s: float = ANSWER_TIMEOUT_S) -> bytes | None:
        """Send bytes as they are, length prefix included; the answer as bytes (its length prefix left out),
        None when the server hangs up. The record shows both."""
        step: Step = {"client": self.name, "does": "sends bytes", "request": f"hex {content[:200].hex()}"}
        self._play.steps.append(step)
        try:
            self._connection.send(content)
            answer = self._connection.receive(deadline_s)
        except Closed:
            step["answer"] = CLOSED
            return None
        except NoAnswer:
            step["answer"] = NO_ANSWER
            return None
        step["answer"] = f"hex {answer.hex()}"
        return answer

    def quiet_bytes(self, content: bytes) -> bytes:
        """The answer to bytes as they are, without a trace in the record. Broken: there is none."""
        try:
            self._connection.send(content)
            return self._connection.receive(ANSWER_TIMEOUT_S)
        except (Closed, NoAnswer) as error:
            raise Broken(f"{self.name}: {type(error).__name__}") from error

    def ask_body(self, api: str, version: int, content: bytes, deadline_s: float = ANSWER_TIMEOUT_S) -> Any:
        """Send a right header with `content` for a body. Returns the answer's entity, None if hung up."""
        head = header(api, version, next(self._correlation_ids), self.client_id)
        step: Step = {
            "client": self.name,
            "does": f"sends {api} v{version} with the body",
            "request": normal.Reading(self._play.names).plain(content),
        }
        self._play.steps.append(step)
        parked = Parked(self, api, version, step)
        try:
            self._connection.send(framed(head + content))
            return parked.collected((), (), deadline_s, step)
        except (Broken, Closed):
            step["answer"] = CLOSED
            return None

    def expect_closed(self, deadline_s: float = ANSWER_TIMEOUT_S) -> None:
        """Record whether the server hangs up without another word."""
        step: Step = {"client": self.name, "does": "waits to be cut off"}
        self._play.steps.append(step)
        try:
            answer = self._connection.receive(deadline_s)
            step["answer"] = f"hex {answer.hex()}"
        except Closed:
            step["answer"] = CLOSED
        except NoAnswer:
            step["answer"] = NO_ANSWER

    def quietly(self, api: str, version: int, /, **fields: Any) -> Any:
        """Ask the server something, and record nothing."""
        try:
            self.post(api, version, fields)
            return parsed(api, version, self._connection.receive(ANSWER_TIMEOUT_S))
        except (Closed, NoAnswer) as error:
            raise Broken(f"{self.name}: {api} v{version}: {type(error).__name__}") from error

    def log_in(self, user: str) -> None:
        """Log in by mechanism PLAIN, without a trace in the record."""
        self.quietly("sasl_handshake", 1, mechanism="PLAIN")
        token = f"\0{user}\0{password_of(user)}".encode()
        answer = self.quietly("sasl_authenticate", 2, auth_bytes=token)
        assert answer.error_code.value == 0, answer

    def post(self, api: str, version: int, fields: Mapping[str, Any]) -> None:
        """Send a request and record nothing. Raises Closed."""
        head = header(api, version, next(self._correlation_ids), self.client_id)
        self._connection.send(framed(head + body(request_entity(api, version, fields))))

    def receive(self, deadline_s: float) -> bytes:
        """Return the frame of the next answer. Raises Closed, NoAnswer."""
        return self._connection.receive(deadline_s)

    def is_answered(self) -> bool:
        """Whether `receive` would find something at once."""
        return self._connection.has_bytes()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @property
    def play(self) -> Play:
        return self._play

    def _sent(self, api: str, version: int, fields: dict[str, Any], does: str) -> Parked:
        request = normal.Reading(self._play.names).plain(fields)
        step: Step = {"client": self.name, "does": f"{does} {api} v{version}", "request": request}
        self._play.steps.append(step)
        try:
            self.post(api, version, fields)
        except Closed:
            step["answer"] = CLOSED
            raise Broken(f"{self.name}: {api} v{version}: closed") from None
        return Parked(self, api, version, step)


class Parked:
    """A request whose answer is still to come."""

    def __init__(self, client: Client, api: str, version: int, step: Step) -> None:
        self._client = client
        self._api = api
        self._version = version
        self.step = step

    def collect(
        self,
        *,
        ignore: Collection[str] = (),
        unordered: Collection[str] = (),
        deadline_s: float = ANSWER_TIMEOUT_S,
    ) -> Any:
        """Wait for the answer and record it."""
        step: Step = {"client": self._client.name, "does": f"gets the answer of {self._api} v{self._version}"}
        self._client.play.steps.append(step)
        return self.collected(ignore, unordered, deadline_s, step)

    def expect_silence(self, seconds: float = 0.3) -> None:
        """Record that no answer comes for a while: the request is parked."""
        step: Step = {"client": self._client.name, "does": f"waits {seconds:g} s for {self._api}"}
        self._client.play.steps.append(step)
        try:
            entity = parsed(self._api, self._version, self._client.receive(seconds))
        except NoAnswer:
            step["answer"] = NO_ANSWER
        except Closed:
            step["answer"] = CLOSED
        else:
            step.update(said(self._client.play.names, self._api, entity, (), ()))
            raise Broken(f"{self._client.name}: {self._api} was answered")

    def collected(
        self, ignore: Collection[str], unordered: Collection[str], deadline_s: float, step: Step
    ) -> Any:
        try:
            frame = self._client.receive(deadline_s)
        except (Closed, NoAnswer) as error:
            step["answer"] = CLOSED if isinstance(error, Closed) else NO_ANSWER
            raise Broken(f"{self._client.name}: {self._api} v{self._version}: {step['answer']}") from None
        entity = parsed(self._api, self._version, frame)
        step.update(said(self._client.play.names, self._api, entity, ignore, unordered))
        return entity


def said(
    names: normal.Names, api: str, entity: Any, ignore: Collection[str], unordered: Collection[str]
) -> Step:
    """The part of a step that is compared: the answer, and what is left out of it."""
    if api == "list_groups":
        own = tuple(group for group in entity.groups if names.token in group.group_id)
        entity = dataclasses.replace(entity, groups=own)  # other transcripts' groups are there too
    told: Step = {"answer": normal.answer(names, api, ignore, unordered).plain(entity)}
    if ignore:
        told["ignored"] = sorted(ignore)
    if unordered:
        told["unordered"] = sorted(unordered)
    return told


def parsed(api: str, version: int, frame: bytes) -> Any:
    """Return the entity that the frame of an answer has."""
    return answer_reader(message_class(api, version, "response"))(frame)[0]


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content
