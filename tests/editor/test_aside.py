"""Background work of the language server: interruption, cancellation and order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from math import inf
from threading import Event

import pytest

pytest.importorskip("pygls", reason="the language server needs pygls (the extra `lsp`)")

from archir.diagnostics.errors import ArchError
from archir.diagnostics.work import budget_share, fresh_budget, spend, work_budget
from archir.tools.lsp.background import BackgroundWorker, InterruptedWorkError
from tests.conftest import EXAMPLES
from tests.editor.test_server import run, serving


def soon(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 60))


def endless(begun: Event, again: int = 1) -> str:
    """Work that ends for nothing but its budgets, of which it has one in another; and begins as often anew."""
    for _ in range(again):
        try:
            with work_budget(inf), fresh_budget(), budget_share(0.5):
                while True:
                    begun.set()
                    spend(1)
        except Exception:
            continue
    return "what an interrupted answer would be"


@pytest.mark.parametrize("again", [1, 3])
def test_background_work_is_interrupted_by_new_request(again: int) -> None:
    async def test() -> None:
        aside, begun = BackgroundWorker(), Event()
        task = asyncio.ensure_future(aside.run(lambda: lambda: endless(begun, again)))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        assert aside.interrupt()
        with pytest.raises(InterruptedWorkError):
            await task
        assert not aside.interrupt()
        assert await aside.run(lambda: lambda: "next") == "next"

    soon(test)


def test_background_work_ends_when_request_is_canceled() -> None:
    async def test() -> None:
        aside, begun = BackgroundWorker(), Event()
        task = asyncio.ensure_future(aside.run(lambda: lambda: endless(begun)))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await aside.run(lambda: lambda: "next") == "next"

    soon(test)


def test_background_work_runs_in_order_and_propagates_errors() -> None:
    async def test() -> None:
        aside, order = BackgroundWorker(), []

        def refuse() -> None:
            order.append("first")
            raise ArchError

        first = asyncio.ensure_future(aside.run(lambda: refuse))
        second = asyncio.ensure_future(aside.run(lambda: order.append("prepared") or (lambda: order.append("second"))))
        nothing = asyncio.ensure_future(aside.run(lambda: None))
        with pytest.raises(ArchError):
            await first
        assert [await second, await nothing] == [None, None]
        assert order == ["first", "prepared", "second"]

    soon(test)


def test_keystroke_interrupts_running_check() -> None:
    """A check that runs is given up for the next text: what it would have said is not told."""

    async def test() -> None:
        async with serving(EXAMPLES) as client:
            path = EXAMPLES / "nas_bench_101" / "nas_bench_101.arch"
            text, uri = path.read_text("utf-8"), path.as_uri()
            client.open(uri, text)
            await client.until(lambda: client.versions.get(uri) == 1)
            told = client.many
            await asyncio.sleep(0.6)  # the check has begun, and takes longer
            client.change(uri, 2, text.replace("max_pool", "maxpool", 1))
            await client.until(lambda: client.versions.get(uri) == 2)
            assert client.many == told + 1
            assert [one.code for one in client.told[uri]] == ["A0201"]

    run(test)
