"""Agents that evaluate in the session of the working directory, until stdin is closed."""

from __future__ import annotations

import asyncio
import sys
import threading

from tests.benchmarks.mcp import AGENTS, SHARED, connected


async def main() -> None:
    enough = threading.Event()
    begun = 0

    def wait_for_the_end() -> None:
        sys.stdin.read()
        enough.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()

    async def work(number: int) -> None:
        nonlocal begun
        async with connected(SHARED) as client:
            turn = 0
            while not enough.is_set():
                await client.call_tool(
                    "eval", {"code": f"x{number} = {turn}; print('agent', {number}, {turn})"}
                )
                turn += 1
                if turn == 1:
                    begun += 1
                    if begun == AGENTS:
                        print("ready", flush=True)

    await asyncio.gather(*(work(number) for number in range(AGENTS)))


if __name__ == "__main__":
    asyncio.run(main())
