"""Agents that evaluate in the session of the working directory until stdin is closed."""

from __future__ import annotations

import asyncio
import sys

from tests.benchmarks.mcp import AGENTS, SHARED, connected


async def main() -> None:
    enough = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    start_barrier = asyncio.Barrier(AGENTS + 1)

    async def work(number: int) -> None:
        async with connected(SHARED) as client:
            turn = 0
            while not enough.done():
                code = f"x{number} = {turn}; print('agent', {number}, {turn})"
                await client.call_tool("eval", {"code": code})
                if not turn:
                    await start_barrier.wait()
                turn += 1

    agents = [asyncio.create_task(work(number)) for number in range(AGENTS)]
    await start_barrier.wait()
    print("ready", flush=True)
    await asyncio.gather(*agents)


if __name__ == "__main__":
    asyncio.run(main())
