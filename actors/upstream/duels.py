"""How long a partition that somebody moves away again and again is left where he moved it.

The first time it is moved back at once. A tool that insists would make clients look for their coordinator
all the time: so the pauses get longer, until the partition has been left alone for a while, or Raft elects
another leader.
"""

from typing import Final

PAUSE_MS: Final = 1_000
"""The second pause; the first is none, and each further one is twice as long."""
PAUSE_MAX_MS: Final = 60_000
QUIET_MS: Final = 120_000
"""How long nobody may have moved it for the next pause to be none again."""


class Duel:
    """One partition of ours."""

    def __init__(self) -> None:
        self.due_ms = 0
        """When it may be moved back."""
        self._term = -1
        """The term of the leader under which it was led rightly; -1: it never was."""
        self._is_led = False
        self._since_ms = 0
        self._moved = 0

    def look(self, term: int, now_ms: int, *, is_led: bool) -> bool:
        """Take note of whether the partition is led as Raft says in this term. Returns whether somebody has
        just moved it away."""
        if term != self._term:
            self._moved, self.due_ms, self._is_led = 0, 0, False
        if is_led:
            if not self._is_led:
                self._term, self._is_led, self._since_ms = term, True, now_ms
            elif now_ms - self._since_ms >= QUIET_MS:
                self._moved = 0
            return False
        was_moved = self._is_led
        self._is_led = False
        if was_moved:
            self.due_ms = now_ms + self.pause_ms
            self._moved += 1
        return was_moved

    @property
    def pause_ms(self) -> int:
        """How long the next pause is."""
        return min(PAUSE_MS << min(self._moved - 1, 10), PAUSE_MAX_MS) if self._moved else 0
