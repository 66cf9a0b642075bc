"""What was asked of the controller about one thing, and when that thing may be decided about anew.

Nothing is asked twice for the same fact: not before the answer, and after it not before the metadata shows
what came of it. An answer that is lost leaves open whether the request was carried out, which newer metadata
shows, too.
"""

from typing import Final, NamedTuple

SHOWN_MS: Final = 2_000
"""How long after a good answer the metadata may take to show what came of it."""
LOST_MS: Final = 500
"""How long after a lost answer the metadata may take to show what came of it, at least."""
RETRY_MS: Final = 100
"""How long after a refusal the same is tried again; twice as long after each further one."""
RETRY_MAX_MS: Final = 10_000


class Moment(NamedTuple):
    """The time, and the offset up to which the metadata is known."""

    now_ms: int
    metadata_offset: int


class Sent:
    """The last request about one thing."""

    def __init__(self) -> None:
        self.is_asked = False
        """Whether there is no answer yet."""
        self._version: object = None
        self._is_open = False
        self._free_at_ms = 0
        self._free_after_offset = -1
        self._refusals = 0

    def ask(self, version: object) -> None:
        """Take note of a request that was decided on a state of this version."""
        self.is_asked, self._version = True, version

    def granted(self, moment: Moment) -> None:
        """Take note of a good answer."""
        self._refusals = 0
        self._answered(moment.now_ms + SHOWN_MS, moment.metadata_offset, is_open=True)

    def lost(self, moment: Moment) -> None:
        """Take note that there is no answer."""
        self._answered(moment.now_ms + LOST_MS, moment.metadata_offset, is_open=True)

    def refused(self, moment: Moment, *, is_stale: bool) -> None:
        """Take note of a refusal; `is_stale` if it says that the state was an old one."""
        pause_ms = min(RETRY_MS << min(self._refusals, 10), RETRY_MAX_MS)
        self._refusals += 1
        self._answered(moment.now_ms + pause_ms, moment.metadata_offset if is_stale else -1, is_open=is_stale)

    def is_free(self, version: object, moment: Moment) -> bool:
        """Return whether a thing whose state has this version may be decided about."""
        if self.is_asked:
            return False
        if self._is_open and version != self._version:
            return True
        return moment.now_ms >= self._free_at_ms and moment.metadata_offset > self._free_after_offset

    def _answered(self, free_at_ms: int, free_after_offset: int, *, is_open: bool) -> None:
        """`is_open`: whether a newer state of the thing frees it at once."""
        self.is_asked, self._is_open = False, is_open
        self._free_at_ms, self._free_after_offset = free_at_ms, free_after_offset
