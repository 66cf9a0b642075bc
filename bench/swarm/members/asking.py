"""How a member asks its coordinator: it finds it, connects, and writes each request down with its outcome."""

from __future__ import annotations

import time
from collections.abc import Mapping
from random import Random
from types import MappingProxyType
from typing import Final, TypeVar

from bench.member.member import Member
from bench.member.reactions import Reaction
from bench.member.requests import (
    Identity,
    Request,
    find_coordinator,
)
from bench.swarm.planning.clients import CLIENTS
from bench.swarm.planning.plan import CONSUMER, MemberPlan
from bench.swarm.rows.board import KEEPS
from bench.swarm.rows.recorder import GROUP
from bench.swarm.rows.shared import Shared
from bench.swarm.wire.connection import REQUEST_TIMEOUT_S, Address, Connection, TimedOut
from bench.swarm.wire.coordinators import address_of
from bench.swarm.wire.errors import error_name
from bench.swarm.wire.exchange import Question, Read, exchange, looking_up
from storage.history.calls import CLASSIC, Call
from storage.history.calls import CONSUMER as CONSUMER_CALL

T = TypeVar("T")

NOTHING: Final[Mapping[int, Reaction]] = MappingProxyType({})
JOINING: Final = "joining"
STABLE: Final = "stable"
ASLEEP: Final = "asleep"
LOST: Final = "without coordinator"
ENDED: Final = "ended"


class CoordinatorLost(Exception):
    """The coordinator is another broker now: the member has to find it again."""


class NotYet(Exception):
    """The coordinator cannot answer yet: the same request is due once more, later."""


class GaveUp(Exception):
    """An error by which a client ends itself; the text names it."""


class Asker:
    """A client that sends requests to its group's coordinator. `reactions` say what its protocol does about
    each error."""

    reactions: Mapping[int, Reaction]

    def __init__(self, plan: MemberPlan, life: int, shared: Shared, member: Member) -> None:
        self.plan = plan
        self.client = f"{plan.name}#{life}"
        self.software = CLIENTS[plan.client]
        self.shared = shared
        self.chance = Random(f"{shared.seed}/{self.client}")
        self.state = JOINING
        self._speaks_as = member
        self._address: Address | None = None
        self._line: Connection | None = None
        self._lost_at: float | None = None

    @property
    def member_id(self) -> str:
        return self._speaks_as.member_id

    @property
    def epoch(self) -> int:
        return self._speaks_as.epoch

    @property
    def is_consumer(self) -> bool:
        return self.plan.protocol == CONSUMER

    def identity(self) -> Identity:
        return Identity(self.plan.group_id, self.epoch, self.member_id, self.plan.instance_id)

    def call(self) -> Call:
        """The row of a request for the run's record; `ask` fills in what is not known before it is sent."""
        session_ms = self.shared.consumer_session_ms if self.is_consumer else self.plan.session_timeout_ms
        return Call(
            self.client,
            "",
            "",
            0,
            group_id=self.plan.group_id,
            protocol=CONSUMER_CALL if self.is_consumer else CLASSIC,
            member_id=self.member_id,
            group_instance_id=self.plan.instance_id,
            epoch=self.epoch,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=self.plan.rebalance_timeout_ms,
        )

    def ask(self, request: Request, call: Call, read: Read[T], timeout_s: float = REQUEST_TIMEOUT_S) -> T:
        """Ask the coordinator. Raises Closed, TimedOut, CoordinatorLost, NotYet."""
        return self._ask_on(self._connected(), Question(request, read, timeout_s), call)

    def ask_and_be_held(self, request: Request, call: Call, read: Read[T], timeout_s: float) -> T:
        """Ask the coordinator what it may answer late. Raises what `ask` raises."""
        if not self.shared.coordinators.are_shared:
            return self.ask(request, call, read, timeout_s)
        address = self._coordinator()
        who = self.call()
        lent = self.shared.coordinators.lend(address, who, self.software)
        is_answered = False
        try:
            value = self._ask_on(lent, Question(request, read, timeout_s), call)
            is_answered = True
            return value
        finally:
            if not is_answered:
                lent.close()
            self.shared.coordinators.returned(address, who, self.software, lent)

    def _ask_on(self, line: Connection, question: Question[T], call: Call) -> T:
        is_answered = False
        try:
            value = exchange(self.shared.recorder, line, question, call)
            is_answered = True
            return value
        except TimedOut:
            self.shared.bootstrap.leave(self._address)
            raise
        finally:
            if not is_answered and line is self._line and not self.shared.coordinators.are_shared:
                line.close("given up")  # the next request must not wait behind this one

    def check(self, error_code: int, of_client: Mapping[int, Reaction] = NOTHING) -> Reaction:
        """What the member has to do about an error code. `of_client` holds where its software differs from
        Kafka's own clients. Raises CoordinatorLost, NotYet or GaveUp for what all members do alike."""
        match of_client.get(error_code, self.reactions.get(error_code, Reaction.GIVE_UP)):
            case Reaction.FINE:
                self._served()
                return Reaction.FINE
            case Reaction.AGAIN:
                raise NotYet
            case Reaction.FIND:
                raise CoordinatorLost
            case Reaction.GIVE_UP:
                raise GaveUp(error_name(error_code))
            case reaction:
                return reaction

    def _connected(self) -> Connection:
        if self._line is not None and not self._line.is_open:
            self._forget_coordinator()
        if self._line is None:
            address = self._coordinator()
            coordinators = self.shared.coordinators
            self._line = coordinators.take(address, self.call(), self.software, self.plan.name)
        return self._line

    def _coordinator(self) -> Address:
        if self._address is None:
            group_id = self.plan.group_id

            def read(answer: bytes, call: Call) -> tuple[Call, tuple[int, Address | None]]:
                found = address_of(answer)
                return call._replace(error_code=found[0]), found

            call = self.call()._replace(epoch=-1)
            with looking_up(self.shared.recorder, call):
                line = self.shared.bootstrap.connection()
            question = Question(find_coordinator(group_id), read)
            error_code, self._address = self._ask_on(line, question, call)
            if self._address is None:
                self.check(error_code)
                raise NotYet
        return self._address

    def _forget_coordinator(self) -> None:
        self._without_service()
        self._give_line_back()
        self._address = None

    def _give_line_back(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            self.shared.coordinators.give_back(line)

    def _without_service(self) -> None:
        if self._lost_at is None:
            self._lost_at = time.monotonic()
        if self.state == STABLE:
            # The member keeps its partitions: its group does not rebalance, but is not stable either.
            self.state = LOST
            self.shared.recorder.turn(self.plan.group_id, self.plan.name, KEEPS)

    def _served(self) -> None:
        if self._lost_at is not None:
            self.shared.recorder.fire(GROUP, "without coordinator", self._without_ms(), 0, None)
            self._lost_at = None
        if self.state == LOST:
            self.state = STABLE
            self.shared.recorder.turn(self.plan.group_id, self.plan.name, self.epoch)

    def _without_ms(self) -> float:
        assert self._lost_at is not None, "asked only then"
        return (time.monotonic() - self._lost_at) * 1000
