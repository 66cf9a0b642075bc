"""`python -m tests.fuzz --frames 1000000 --seed 1`: campaigns of 20,000 frames, each at a new stack.

`--sweep` plays every version of every API instead, with each of its fields made wrong in each way;
`--bootstrap HOST:PORT --seconds 300` sends frames of both sorts to a tier that runs. Look at its logs
afterwards: what they call an error is a bug.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter

import psutil

from actors.catalog.table import name_of
from tests.fuzz.campaign import Campaign, Failure, Tally
from tests.fuzz.sockets import bombard
from tests.fuzz.sweep import sweep
from tests.protocol.random_entities import EVERY_VERSION

FRAMES_PER_CAMPAIGN = 20_000
GROWTH_MIB_MAX = 64.0
"""Growth of the process between the second campaign and the last: more is a leak."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first campaign")
    parser.add_argument("--sweep", action="store_true", help="every version, every field made wrong")
    parser.add_argument("--bootstrap", help="a tier that runs, which gets the frames over sockets")
    parser.add_argument("--seconds", type=float, default=60.0, help="for how long it gets them")
    parser.add_argument("--clients", type=int, default=8, help="how many connections send them")
    asked = parser.parse_args()
    if asked.bootstrap is not None:
        return _bombard(asked)
    return _sweep(asked.seed) if asked.sweep else _campaigns(asked)


def _bombard(asked: argparse.Namespace) -> int:
    """Send frames to a tier for a while. Exit code 1 if no client had an answer to some version."""
    host, _, port = asked.bootstrap.rpartition(":")
    tally = asyncio.run(bombard(host, int(port), asked.seed, asked.clients, asked.seconds))
    print(f"{tally.frames:,} frames, {tally.answered:,} answers, {tally.closed:,} closed or silent")
    return _unanswered(tally)


def _sweep(seed: int) -> int:
    script = sweep(seed)
    try:
        tally = Campaign(seed, 0, script).run(len(script))
    except Failure as failure:
        print(f"\n{failure}\nagain: python -m tests.fuzz --sweep --seed {seed}")
        return 1
    print(_summary(tally))
    return _unanswered(tally)


def _unanswered(tally: Tally) -> int:
    """Say which versions had no answer; exit code 1 if there is one."""
    missing = [
        f"{name_of(key)} v{version}" for key, version in EVERY_VERSION if not tally.answers[key, version]
    ]
    print(
        f"{len(EVERY_VERSION) - len(missing)} of {len(EVERY_VERSION)} versions were answered",
        *missing,
        sep="\n",
    )
    return 1 if missing else 0


def _campaigns(asked: argparse.Namespace) -> int:
    began_at, total, done = time.monotonic(), Tally(), 0
    rss_mib: list[float] = []
    number = asked.first
    while done < asked.frames:
        frames = min(FRAMES_PER_CAMPAIGN, asked.frames - done)
        try:
            tally = Campaign(asked.seed, number).run(frames)
        except Failure as failure:
            print(
                f"\n{failure}\nagain: python -m tests.fuzz"
                f" --seed {asked.seed} --first {number} --frames {frames}"
            )
            return 1
        number, done = number + 1, done + frames
        _add(total, tally)
        rss_mib.append(psutil.Process().memory_info().rss / 2**20)
        seconds = time.monotonic() - began_at
        print(f"{done:>9,} frames  {done / seconds:>6,.0f}/s  {rss_mib[-1]:.0f} MiB", flush=True)
    print(_summary(total))
    if len(rss_mib) > 2 and rss_mib[-1] - rss_mib[1] > GROWTH_MIB_MAX:
        print(f"the process grew from {rss_mib[1]:.0f} to {rss_mib[-1]:.0f} MiB")
        return 1
    return 0


def _add(total: Tally, tally: Tally) -> None:
    for name in ("frames", "answered", "closed", "unfinished", "parked"):
        setattr(total, name, getattr(total, name) + getattr(tally, name))
    total.mutations += tally.mutations
    total.errors += tally.errors


def _summary(total: Tally) -> str:
    by_code: Counter[int] = Counter()
    for (_, code), count in total.errors.items():
        by_code[code] += count
    codes = ", ".join(f"{code}: {count:,}" for code, count in by_code.most_common())
    return (
        f"{total.frames:,} frames: {total.answered:,} answers, {total.closed:,} connections closed, "
        f"{total.parked:,} parked, {total.unfinished:,} left unfinished\nerror codes: {codes}"
    )


if __name__ == "__main__":
    sys.exit(main())
