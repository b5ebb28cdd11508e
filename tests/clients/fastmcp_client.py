"""fastmcp: the session with its client, and a call with its command line.

Usage: fastmcp_client.py EXECUTABLE
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from session import session

executable = sys.argv[1]


def connect(home):
    return Client(StdioTransport(executable, [], env={"HOME": home}, keep_alive=False))


async def call(client, tool, arguments, progress=None):
    return await client.call_tool(tool, arguments, progress_handler=progress, raise_on_error=False)


async def facts(client):
    tools = await client.list_tools()
    return client.server_info.name, client.instructions, [tool.name for tool in tools]


asyncio.run(session(connect, call, facts))

command = [Path(sys.executable).with_name("fastmcp"), "call", "--command", executable]
arguments = ["--target", "eval", "--input-json", '{"source": "1 + 1"}', "--json"]
printed = subprocess.run([*command, *arguments], check=True, capture_output=True, text=True).stdout
assert json.loads(json.loads(printed)["content"][0]["text"])["value_repr"] == "2", printed
