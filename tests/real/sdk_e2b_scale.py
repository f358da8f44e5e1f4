"""sdk_e2b_scale.py: E2B's asynchronous SDK with many commands at once, as `e2b_load` does it with ours.

Arguments: commands, shortest sleep, spread of sleeps, creates in flight. Prints what it took as JSON.
"""

import asyncio
import json
import resource
import sys
import time

from e2b import AsyncSandbox

commands, shortest_s, spread_s, in_flight = (int(argument) for argument in sys.argv[1:5])


def cpu_s():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def run(sandbox, number):
    # The same order of ends as the other client has: spread, not in the order of the starts.
    sleep_s = shortest_s + spread_s * (number * 7919 % commands) / commands
    begun = time.monotonic()
    result = await sandbox.commands.run(f"sleep {sleep_s:.3f}", timeout=900)
    assert result.exit_code == 0
    return (time.monotonic() - begun - sleep_s) * 1000


async def main():
    places = asyncio.Semaphore(in_flight)

    async def create():
        async with places:
            return await AsyncSandbox.create(timeout=3600)

    async def kill(sandbox):
        async with places:
            await sandbox.kill()

    begun, before = time.monotonic(), cpu_s()
    sandboxes = await asyncio.gather(*(create() for _ in range(commands)))
    created = time.monotonic()
    late = await asyncio.gather(*(run(sandbox, i) for i, sandbox in enumerate(sandboxes)))
    ran = time.monotonic()
    await asyncio.gather(*(kill(sandbox) for sandbox in sandboxes))
    used = cpu_s() - before
    times = {"create_s": created - begun, "run_s": ran - created, "kill_s": time.monotonic() - ran}
    print(json.dumps({"finished": len(late), "cpu_s": used, "latencies_ms": sorted(late), **times}))


asyncio.run(main())
