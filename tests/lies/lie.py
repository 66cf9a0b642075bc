"""What every lie is: which requests it is about, what becomes of them, and what is expected to be said of it.

PURE: the proxy calls the methods; a lie that remembers something is made anew for every swarm.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar, Final, NamedTuple

from storage.history.judge.findings import BROKEN as BROKEN
from storage.history.judge.findings import NOT_SHOWN as NOT_SHOWN
from tests.lies.exchange import GROUP_REQUESTS, Asked, Doing, Pass

SERVED: Final = "nothing: it served whatever reached it"
EXPIRED: Final = "sessions that timed out"
WENT_BACK: Final = "commits that went back"
REFUSED: Final = "commits that it refused"


class Expected(NamedTuple):
    """The verdict that a lie has to get."""

    promise: str
    """The first promise that is no longer kept."""
    status: str
    """The status that this promise gets: BROKEN or NOT_SHOWN."""
    words: str
    """The rule that was broken; of what was not shown, part of the reason."""
    server: str = SERVED
    """What the server's own history has to tell of the same groups."""


class Lie:
    """Tells the truth. A subclass's docstring says what it does instead, in a sentence for the table."""

    expected: ClassVar[Expected]
    stage: ClassVar[str] = "steady"
    """The plan of the swarm that is lied to: one of `stages.STAGES`."""
    from_s: ClassVar[float] = 4.0
    """How long after the first join of the swarm the lie begins."""
    about: ClassVar[frozenset[int]] = frozenset(GROUP_REQUESTS)
    """The API keys of the requests that the lie is about; other requests pass."""
    group: ClassVar[str] = ""
    """Part of the names of the groups that are lied to."""
    cuts: ClassVar[bool] = False
    """Whether all connections end when the lie begins."""
    refuses: ClassVar[bool] = False
    """Whether nobody can connect any more from the beginning of the lie."""

    def __init__(self) -> None:
        self.told: Counter[str] = Counter()
        """How often what was done: without any it was no lie."""

    def concerns(self, asked: Asked) -> bool:
        """Whether the client that sent this request gets a lie."""
        return (
            asked.api_key in self.about
            and self.from_s <= asked.at_s
            and self.group in asked.group_id
            and bool(asked.group_id)
        )

    def does(self, asked: Asked) -> Doing:
        """Say what the proxy does with a request that the lie concerns."""
        return Pass(asked.frame)

    def tells(self, asked: Asked, answer: Any) -> Any:
        """The answer in place of the server's, which may be the same."""
        return answer

    def sends(self, asked: Asked, frame: bytes) -> list[bytes]:
        """Frames in the place of one with its answer, length prefixes included."""
        return [frame]

    def delay_s(self, asked: Asked) -> float:
        """Return how late the answer is sent."""
        return 0.0

    def learns(self, asked: Asked, answer: Any) -> None:
        """Learn from every request to a group and its answer, also from those before the lie begins."""


def title(lie: type[Lie]) -> str:
    """The first paragraph of its docstring, in one line."""
    paragraph = (lie.__doc__ or "").strip().partition("\n\n")[0]
    return " ".join(paragraph.split())
