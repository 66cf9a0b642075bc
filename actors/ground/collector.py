"""Short garbage collections in an actor whose state is large.

A full collection looks at every object that is alive: 200,000 members are a pause of a tenth of a second, in
which nobody's heartbeat is answered. An object of a replica's state is freed when its last reference goes,
and garbage in cycles is minutes old at most. So whatever has survived one full collection is left out of all
later ones, and full collections, which then look only at what is new since the last, come sooner.
"""

from __future__ import annotations

import gc
from typing import Any

YOUNG_OBJECTS = 700
YOUNG_COLLECTIONS = 10
MIDDLE_COLLECTIONS = 3
"""How many collections of the middle generation make a full one due: about 20,000 new objects come between
two full collections, less than 10 ms of work."""
OLDEST_GENERATION = 2


def keep_collections_short() -> None:
    """Keep this process's garbage collections short from now on. The next full collection looks at all there
    is, for the last time."""
    gc.set_threshold(YOUNG_OBJECTS, YOUNG_COLLECTIONS, MIDDLE_COLLECTIONS)
    if _leave_out_survivors not in gc.callbacks:
        gc.callbacks.append(_leave_out_survivors)


def _leave_out_survivors(phase: str, collection: dict[str, Any]) -> None:
    if phase == "stop" and collection["generation"] == OLDEST_GENERATION:
        gc.freeze()
