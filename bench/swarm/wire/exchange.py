"""One request on a connection, or one attempt to connect, written down with what became of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from bench.member.requests import Request
from bench.swarm.wire.clock import now_us
from bench.swarm.wire.connection import CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S, Closed, Connection, TimedOut
from cluster.tier_file import TierError
from storage.history.calls import ANSWERED, CLOSED, CONNECT, FIND_COORDINATOR, TIMED_OUT, Call

T = TypeVar("T")
Read = Callable[[bytes, Call], tuple[Call, T]]
"""Reads an answer. Returns the call's row with what the answer says, and what the client goes on with."""


class Question(NamedTuple, Generic[T]):
    """A request, how its answer is read, and how long the answer is waited for."""

    request: Request
    read: Read[T]
    timeout_s: float = REQUEST_TIMEOUT_S


class Ledger(Protocol):
    """Where the rows of a run's record are written."""

    def sent(self, call: Call) -> int:
        """Note a call that has just been sent. Returns its token."""

    def ended(self, token: int, call: Call, size: int) -> None:
        """Write down a call with its outcome. `size` is the number of the answer's bytes."""


class Unwritten:
    """A ledger for calls that are no part of a run's record."""

    def sent(self, call: Call) -> int:
        return 0

    def ended(self, token: int, call: Call, size: int) -> None:
        return


UNWRITTEN: Final = Unwritten()


def exchange(ledger: Ledger, line: Connection, question: Question[T], call: Call) -> T:
    """Ask on an open connection; `call` says who asks. Raises Closed, TimedOut."""
    request, read, timeout_s = question
    call = call._replace(api=request.api, version=request.version, timeout_ms=int(timeout_s * 1000))
    tried_us = now_us()
    try:
        pending = line.send(request)
    except Closed as error:
        with _tried(ledger, call):
            raise error
    except BaseException:  # somebody ends this greenlet: the request may have gone, and be carried out
        lost = call._replace(connection=line.name, sent_us=tried_us, outcome=CLOSED, ended_us=now_us())
        ledger.ended(ledger.sent(lost), lost._replace(detail="given up while it was sent"), 0)
        raise
    call = call._replace(connection=line.name, sent_us=pending.sent_us, correlation_id=pending.correlation_id)
    token = ledger.sent(call)
    ended, size = call._replace(outcome=CLOSED), 0
    try:
        answer = pending.wait(timeout_s)
        size = len(answer)
        ended = call._replace(
            outcome=ANSWERED,
            ended_us=pending.answered_us,
            answer_correlation_id=int.from_bytes(answer[:4], "big"),
        )
        ended, value = read(answer, ended)
    except TimedOut:
        ended = call._replace(outcome=TIMED_OUT)
        line.close("no answer in time")
        raise
    finally:
        ledger.ended(token, ended if size else ended._replace(ended_us=now_us()), size)
    return value


@contextmanager
def connecting(ledger: Ledger, call: Call, name: str) -> Iterator[None]:
    """Write down what is done within as the opening of a connection for `call`."""
    timeout_ms = int(CONNECT_TIMEOUT_S * 1000)
    with _tried(ledger, call._replace(api=CONNECT, connection=name, timeout_ms=timeout_ms)):
        yield


@contextmanager
def looking_up(ledger: Ledger, call: Call) -> Iterator[None]:
    """Get within it the connection on which a coordinator is looked up. If there is none, the look-up has
    failed and is written down so."""
    try:
        yield
    except (Closed, TimedOut, TierError) as error:
        with _tried(ledger, call._replace(api=FIND_COORDINATOR)):
            raise error


@contextmanager
def _tried(ledger: Ledger, call: Call) -> Iterator[None]:
    """Write down `call` as answered if nothing is raised within, else as closed or timed out."""
    call = call._replace(sent_us=now_us())
    token = ledger.sent(call)
    ended = call._replace(outcome=CLOSED, detail="given up")
    try:
        yield
        ended = call._replace(outcome=ANSWERED)
    except TimedOut as error:
        ended = call._replace(outcome=TIMED_OUT, detail=str(error) or "no answer in time")
        raise
    except (Closed, TierError) as error:
        ended = call._replace(outcome=CLOSED, detail=str(error))
        raise
    finally:
        ledger.ended(token, ended._replace(ended_us=now_us()), 0)
