"""Classic members of old versions and their time-outs (C4)."""

from __future__ import annotations

from tests.oracle.kits import describe
from tests.oracle.play import Play
from tests.oracle.registry import transcript


@transcript(rows=("C4", "C16"))
def version_0_has_one_timeout_for_all(play: Play) -> None:
    """It names no rebalance timeout: the session timeout is taken, and who does not sync in it is out."""
    a = play.connect()
    joined = a.ask("join_group", 0, group_id=play.group(), session_timeout=400)
    describe(a, play.group())
    a.ask_until(
        lambda said: said.error_code.value == 25,
        "heartbeat",
        0,
        group_id=play.group(),
        generation_id=1,
        member_id=joined.member_id,
    )
    describe(a, play.group())
