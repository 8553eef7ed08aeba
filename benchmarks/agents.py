"""Measure how long `archir mcp` takes to answer the official client, in a process of its own, on NAS-Bench-201.

python benchmarks/agents.py

Figures are milliseconds per call after the first five calls, kept in `benchmarks/results/agents_cpu.txt`.
"""

from __future__ import annotations

import asyncio
import platform
import sys
import time
from pathlib import Path
from statistics import median, quantiles

from mcp import Client, StdioServerParameters

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = "nas_bench_201/nas_bench_201.arch"
CALLS, WARMUP = 45, 5


async def measure_tools() -> list[str]:
    """Return a line of figures for each tool."""
    lines = []
    server = StdioServerParameters(command=sys.executable, args=["-m", "archir", "mcp", str(ROOT / "examples")])
    async with Client(server) as client:
        for tool in ("check", "count", "cost", "sample", "fix", "format", "show"):
            times = []
            for _ in range(CALLS):
                begin = time.perf_counter()
                answer = await client.call_tool(tool, {"path": PROGRAM})
                times.append(1e3 * (time.perf_counter() - begin))
                assert answer.structured_content is not None
                assert answer.structured_content["ok"]
            warm = times[WARMUP:]
            lines.append(f"{tool:8} {median(warm):8.1f} {quantiles(warm, n=20)[-1]:8.1f} {times[0]:8.1f}")
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    head = f"CPU; Python {platform.python_version()}; {platform.machine()}"
    title = f"milliseconds from call to answer of {PROGRAM}: median, 95%, first call"
    lines = asyncio.run(measure_tools())
    (ROOT / "benchmarks/results/agents_cpu.txt").write_text("\n".join([head, "", title, *lines]) + "\n")


if __name__ == "__main__":
    main()
