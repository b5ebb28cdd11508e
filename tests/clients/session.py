"""What a host does with topup in one session, through a Python client."""

import asyncio
import json
import re
import tempfile
import time

from processes import processes_in

FOREVER = "while true do () done"
BUSY = "let t = Sys.time () in while Sys.time () -. t < 1.4 do () done"


async def session(connect, call, facts):
    """`connect(home)` is a context manager of a client, `call(client, tool, arguments,
    progress)` calls a tool, `facts(client)` gives the server's name, its instructions and
    the names of its tools."""
    with tempfile.TemporaryDirectory(prefix="topup-session-") as home:
        async with connect(home) as client:
            await talk(client, call, facts)
            begun = time.monotonic()
        # The clients send SIGTERM after two seconds; the end of the input must be enough.
        spent = time.monotonic() - begun
        assert spent < 1.9, f"close took {spent} s"
        assert processes_in(home) == []

        async with connect(home) as client:
            abandoned = asyncio.create_task(call(client, "eval", {"source": FOREVER}))
            await asyncio.sleep(0.2)
        abandoned.cancel()
        await asyncio.gather(abandoned, return_exceptions=True)
        assert processes_in(home) == []


async def talk(client, call, facts):
    async def evaluate(source, progress=None):
        return payload(await call(client, "eval", {"source": source}, progress))

    name, instructions, tools = await facts(client)
    assert name == "topup" and "toplevel" in instructions and "eval" in tools

    await evaluate("let x = 41")
    assert (await evaluate("x + 1"))["value_repr"] == "42"

    wrong = await evaluate('x ^ "a"')
    assert wrong["isError"] is True
    assert wrong["diagnostics"][0]["kind"] == "type" and wrong["diagnostics"][0]["line"] == 1

    withdrawn = asyncio.create_task(evaluate(FOREVER))
    await asyncio.sleep(0.2)
    withdrawn.cancel()
    await asyncio.gather(withdrawn, return_exceptions=True)
    assert withdrawn.cancelled()
    async with asyncio.timeout(5):
        assert (await evaluate("x"))["value_repr"] == "41"

    interrupted = asyncio.create_task(evaluate(FOREVER))
    await asyncio.sleep(0.2)
    assert payload(await call(client, "cancel", {}))["cancelled"] is True
    assert (await interrupted)["error"].startswith("evaluation timed out")

    told = []

    async def progress(done, total, message):
        told.append((done, message))

    assert (await evaluate(BUSY, progress))["error"] is None
    assert told, "no progress was told"
    assert re.match(r"\d+\.\d s", told[0][1])


def payload(result):
    """The payload of a tool's result, with its `isError`."""
    is_error = result.is_error
    assert len(result.content) == 1
    return json.loads(result.content[0].text) | {"isError": is_error}
