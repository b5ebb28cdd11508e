"""The session with the Python SDK, in each era. Usage: mcp_sdk.py EXECUTABLE"""

import asyncio
import sys

from mcp import Client, StdioServerParameters

from session import session

executable = sys.argv[1]


async def call(client, tool, arguments, progress=None):
    return await client.call_tool(tool, arguments, progress_callback=progress)


async def in_era(mode, revision):
    def connect(home):
        return Client(StdioServerParameters(command=executable, env={"HOME": home}), mode=mode)

    async def facts(client):
        assert client.protocol_version == revision
        tools = await client.list_tools()
        return client.server_info.name, client.instructions, [tool.name for tool in tools.tools]

    await session(connect, call, facts)


async def main():
    await asyncio.gather(in_era("auto", "2026-07-28"), in_era("legacy", "2025-11-25"))


asyncio.run(main())
