"""Connections on which a simulated leader sends requests to its consumers, as
`actors.leader.consumer_channels` has them: in order, and lost without a word where clients are cut off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from actors.ground.contract import Push, Request
from actors.protocol.api_keys import CHANNEL_CLOSED
from actors.protocol.push_codec import read_answer
from actors.protocol.push_messages import ChannelClosed, ConsumerAnswer, Hangup, Pushed
from tests.simulation.answers import Answers
from tests.simulation.asked import Asked
from tests.simulation.checkers import Violation
from tests.simulation.parts import Process, World


class Listener(Protocol):
    """A consumer's end of a channel."""

    name: str
    group_id: str

    def pushed(self, channel: Channel, pushed: Pushed) -> None: ...


class Channel:
    """The connection on which one consumer has registered with one process."""

    def __init__(self, world: World, asked: Asked, consumer: Listener) -> None:
        self._world = world
        self.process = asked.process
        self.session = asked.request.token
        self.consumer = consumer
        self.is_open = True
        """Whether the consumer's end is."""
        self.is_cut = False
        """Whether nothing gets through any more, which neither side notices."""
        self._arrives_at = [0.0, 0.0]

    def to_consumer(self, work: Callable[[], None]) -> None:
        self._carry(0, work)

    def to_process(self, work: Callable[[], None]) -> None:
        self._carry(1, lambda: self._arrive(work))

    def _carry(self, way: int, work: Callable[[], None]) -> None:
        """Have something arrive behind what was sent before."""
        world = self._world
        if self.is_cut or not world.reaches(self.process):
            self.is_cut = True
            return
        at = max(world.now + world.chance.uniform(0.0001, 0.002), self._arrives_at[way])
        self._arrives_at[way] = at
        world.at(at, work)

    def _arrive(self, work: Callable[[], None]) -> None:
        process = self.process
        if process.is_alive and process.host.paused_until > self._world.now:
            self._world.at(process.host.paused_until, lambda: self._arrive(work))
        elif process.is_alive:
            process.host.guard(work)
            process.wake()

    # -- the consumer's end --------------------------------------------------------------------------

    def answer(self, pushed: Pushed, frame: bytes) -> None:
        """Send the consumer's answer (a frame without its length)."""
        error_code, consumer_id, offsets, is_last = read_answer(pushed.api_key, frame)
        body = ConsumerAnswer(
            self.consumer.group_id, consumer_id, self.session, pushed.number, error_code, offsets, is_last
        )
        self.to_process(lambda: self._tell(pushed.api_key, body))

    def close(self) -> None:
        """Close the consumer's end; the process hears of it."""
        if self.is_open:
            self.is_open = False
            body = ChannelClosed(self.consumer.group_id, self.consumer.name, self.session)
            self.to_process(lambda: self._tell(CHANNEL_CLOSED, body))

    def _tell(self, api_key: int, body: Any) -> None:
        request = Request(0, api_key, 0, "", "", body)
        self.process.machine.tell(request, self.process.now_ms())

    # -- the process's end ---------------------------------------------------------------------------

    def send(self, pushed: Pushed) -> None:
        if self.process.now_ms() > pushed.until_ms:
            return
        self.to_consumer(lambda: self.consumer.pushed(self, pushed) if self.is_open else None)

    def hang_up(self) -> None:
        """Close the process's end; the consumer hears of it."""
        self.to_consumer(self._closed)
        self.is_cut = True

    def _closed(self) -> None:
        self.is_open = False


class Channels(Answers):
    """Answers, and the channels beside them."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._channels: dict[tuple[Process, int], Channel] = {}
        self.pushes = 0

    def open(self, asked: Asked, consumer: Listener) -> Channel:
        """Make the channel of a request by which a consumer registers."""
        channel = Channel(self._world, asked, consumer)
        self._channels[asked.process, channel.session] = channel
        return channel

    def push(self, process: Process, push: Push) -> None:
        """Take what a process sends of its own accord. Raises Violation if it may not send anything."""
        channel = self._channels.get((process, push.token))
        if channel is None:
            raise Violation(f"push: {process.name} sends {push} where nobody has registered")
        self.pushes += 1
        if isinstance(push.body, Hangup):
            channel.hang_up()
        else:
            channel.send(push.body)

    def fallen(self, process: Process) -> None:
        super().fallen(process)
        self._hang_up(process)

    def closed(self, process: Process, *, power_lost: bool) -> None:
        super().closed(process, power_lost=power_lost)
        self._hang_up(process, is_silent=power_lost)

    def _hang_up(self, process: Process, *, is_silent: bool = False) -> None:
        for (owner, _), channel in self._channels.items():
            if owner is process and is_silent:
                channel.is_cut = True
            elif owner is process and not channel.is_cut:
                channel.hang_up()
