"""The reconcile of upstream leaders with one mistake each, for the world and its checks to find.

A mutant is a function that puts its mistake in the place of what it undoes, for as long as its context lasts;
its docstring states the rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from actors.upstream import leadership, moves
from actors.upstream.duels import Duel
from actors.upstream.leadership import Leadership
from actors.upstream.moves import ToIsr, ToReplicas
from actors.upstream.node_care import NodeCare
from actors.upstream.sent import Moment, Sent
from tests.simulation.noticing import Mutant


@contextmanager
def asks_before_the_answer() -> Iterator[None]:
    """Nothing is asked about a partition while an answer is out."""
    free = Sent.is_free

    def mistaken(sent: Sent, version: object, moment: Moment) -> bool:
        sent.is_asked = False
        return free(sent, version, moment)

    with patch.object(Sent, "is_free", mistaken):
        yield


@contextmanager
def asks_again_before_it_shows() -> Iterator[None]:
    """What was granted is not asked again before the metadata shows it."""

    def mistaken(sent: Sent, moment: Moment) -> None:
        sent._answered(moment.now_ms, -1, is_open=True)

    with patch.object(Sent, "granted", mistaken):
        yield


@contextmanager
def takes_a_lost_answer_for_a_refusal() -> Iterator[None]:
    """A request whose answer is lost may have been carried out: newer metadata is waited for."""

    def mistaken(sent: Sent, moment: Moment) -> None:
        sent._answered(moment.now_ms, -1, is_open=True)

    with patch.object(Sent, "lost", mistaken):
        yield


@contextmanager
def waits_for_a_lost_answer() -> Iterator[None]:
    """A lost answer does not hold a partition up for ever."""
    with patch.object(Sent, "lost", lambda sent, moment: None):
        yield


@contextmanager
def gives_up_what_is_refused() -> Iterator[None]:
    """What was refused is tried again."""

    def mistaken(sent: Sent, moment: Moment, *, is_stale: bool) -> None:
        sent._answered(moment.now_ms + 10**9, -1, is_open=False)

    with patch.object(Sent, "refused", mistaken):
        yield


@contextmanager
def leaves_the_order_of_replicas() -> Iterator[None]:
    """The leader is the first replica, because Kafka gives leadership back to that one."""

    def mistaken(aimed: tuple[int, ...], replicas: tuple[int, ...]) -> bool:
        return set(aimed) == set(replicas)

    with patch.object(moves, "_are_the_same", mistaken):
        yield


@contextmanager
def names_replicas_outside_the_isr() -> Iterator[None]:
    """A leader is moved at once only if all replicas that stay are in the ISR."""

    def mistaken(state: Any, wanted: Any, live: Any) -> Any:
        move = real(state, wanted, live)
        if isinstance(move, ToReplicas) and state.leader != wanted.broker_id:
            all_live = (each for each in wanted.replicas if each in live)
            return ToReplicas(tuple(dict.fromkeys((wanted.broker_id, *all_live))))
        return move

    real = moves.next_move
    with patch.object(leadership, "next_move", mistaken):
        yield


@contextmanager
def forgets_the_isr() -> Iterator[None]:
    """Replicas that are back are put into the ISR again, and a new leader before it leads."""

    def mistaken(state: Any, wanted: Any, live: Any) -> Any:
        move = real(state, wanted, live)
        return None if isinstance(move, ToIsr) else move

    real = moves.next_move
    with patch.object(leadership, "next_move", mistaken):
        yield


@contextmanager
def leaves_who_was_away_outside() -> Iterator[None]:
    """A node that is back is a replica again."""

    def mistaken(state: Any, wanted: Any, live: Any) -> Any:
        known = tuple(each for each in wanted.replicas if each in state.replicas or each == wanted.broker_id)
        return real(state, wanted._replace(replicas=known), live)

    real = moves.next_move
    with patch.object(leadership, "next_move", mistaken):
        yield


@contextmanager
def waits_for_an_election() -> Iterator[None]:
    """If nobody of the ISR can lead, our replica is elected: it has everything."""

    def mistaken(state: Any, wanted: Any, live: Any) -> Any:
        return None if state.leader == moves.NO_LEADER else real(state, wanted, live)

    real = moves.next_move
    with patch.object(leadership, "next_move", mistaken):
        yield


@contextmanager
def takes_from_brokers_outside() -> Iterator[None]:
    """What a broker outside leads is not taken from it by force: it may have taken commits."""
    with patch.object(leadership, "is_led_outside", lambda state, tier: False):
        yield


@contextmanager
def fences_who_does_not_lead() -> Iterator[None]:
    """Only dead nodes are fenced."""

    def mistaken(care: NodeCare, facts: Any, needed: Any, moment: Any) -> Any:
        leading = {leader.broker_id for leader in facts.leaders.values()}
        return real(care, facts._replace(dead=facts.tier - leading), needed, moment)

    real = NodeCare.heartbeats
    with patch.object(NodeCare, "heartbeats", mistaken):
        yield


@contextmanager
def leaves_nodes_uncordoned() -> Iterator[None]:
    """A node is cordoned again when nothing is to be reassigned to it any more."""

    def mistaken(care: NodeCare, facts: Any, needed: Any, moment: Any) -> Any:
        return real(care, facts, facts.tier if needed else needed, moment)

    def for_ever(care: Leadership, decided: Any) -> frozenset[int]:
        return frozenset((1001, 1002, 1003))

    real = NodeCare.heartbeats
    with patch.object(NodeCare, "heartbeats", mistaken), patch.object(Leadership, "_targets", for_ever):
        yield


@contextmanager
def reassigns_to_the_cordoned() -> Iterator[None]:
    """Kafka 4.4 refuses to reassign to cordoned nodes: they are uncordoned first."""
    with patch.object(Leadership, "_targets", lambda care, decided: frozenset()):
        yield


@contextmanager
def uncordons_for_nothing() -> Iterator[None]:
    """Kafka 4.3 needs nothing uncordoned."""
    turn = Leadership.turn

    def mistaken(care: Leadership, facts: Any, now_ms: int) -> Any:
        return turn(care, facts._replace(refuses_cordoned=True), now_ms)

    with patch.object(Leadership, "turn", mistaken):
        yield


@contextmanager
def answers_who_insists_at_once() -> Iterator[None]:
    """Somebody who moves a partition away again and again is answered more and more slowly."""
    with patch.object(Duel, "pause_ms", property(lambda duel: 0)):
        yield


@contextmanager
def leaves_strays() -> Iterator[None]:
    """Partitions of others leave the tier."""
    with patch.object(leadership, "stray_move", lambda *known: None):
        yield


@contextmanager
def gives_strays_to_anybody() -> Iterator[None]:
    """A stray goes to the brokers that have its records."""

    def mistaken(state: Any, index: int, tier: Any, outside: Any) -> Any:
        if not outside or not (set(state.replicas) & tier):
            return None
        away = outside[(index + 1) % len(outside)]
        if state.replicas[:1] == (away,) and state.leader in tier:
            return ToIsr((state.leader, away))
        return ToReplicas((away,))

    with patch.object(leadership, "stray_move", mistaken):
        yield


@contextmanager
def speaks_for_brokers_outside() -> Iterator[None]:
    """The ISR of a partition is told by its leader, if that is ours: never in another broker's name."""

    def mistaken(state: Any, index: int, tier: Any, outside: Any) -> Any:
        if state.leader in outside and not set(state.adding_replicas) <= set(state.isr):
            return ToIsr(tuple(each for each in state.replicas if each == state.leader or each in outside))
        return real(state, index, tier, outside)

    real = moves.stray_move
    with patch.object(leadership, "stray_move", mistaken):
        yield


MUTANTS: Final[tuple[Mutant, ...]] = (
    asks_before_the_answer,
    asks_again_before_it_shows,
    takes_a_lost_answer_for_a_refusal,
    waits_for_a_lost_answer,
    gives_up_what_is_refused,
    leaves_the_order_of_replicas,
    names_replicas_outside_the_isr,
    forgets_the_isr,
    leaves_who_was_away_outside,
    waits_for_an_election,
    takes_from_brokers_outside,
    fences_who_does_not_lead,
    leaves_nodes_uncordoned,
    reassigns_to_the_cordoned,
    uncordons_for_nothing,
    answers_who_insists_at_once,
    leaves_strays,
    gives_strays_to_anybody,
    speaks_for_brokers_outside,
)
