"""Waiting for records without polling."""

from __future__ import annotations

import asyncio

from actors.topics.waiting import AppendWaiters

A = (b"\1" * 16, 0)
B = (b"\2" * 16, 0)


async def turn() -> None:
    """Let everything that is ready run."""
    for _ in range(3):
        await asyncio.sleep(0)


def test_appends_to_any_watched_partition_count_until_it_is_enough() -> None:
    async def story() -> None:
        waiters = AppendWaiters()
        task = asyncio.ensure_future(waiters.wait([A, B], 10, 60))
        await turn()
        waiters.appended(A, 4)
        waiters.appended(B, 5)
        await turn()
        assert not task.done()
        waiters.appended(B, 1)
        await turn()
        assert task.done()
        assert len(waiters) == 0

    asyncio.run(story())


def test_an_interruption_and_the_timeout_end_the_wait() -> None:
    async def story() -> None:
        waiters = AppendWaiters()
        task = asyncio.ensure_future(waiters.wait([A], 10, 60))
        await turn()
        waiters.interrupt(A)
        await turn()
        assert task.done()
        await asyncio.wait_for(waiters.wait([A, A], 10, 0.01), 5)
        assert len(waiters) == 0

    asyncio.run(story())


def test_a_waiter_that_is_cancelled_leaves_nothing_behind() -> None:
    async def story() -> None:
        waiters = AppendWaiters()
        tasks = [asyncio.ensure_future(waiters.wait([A], 10, 60)) for _ in range(2)]
        await turn()
        tasks[0].cancel()
        await turn()
        assert tasks[0].cancelled()
        waiters.appended(A, 10)
        await turn()
        assert tasks[1].done()
        assert len(waiters) == 0

    asyncio.run(story())
