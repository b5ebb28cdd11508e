"""A conversation in each revision, with everything that topup can say in it, for schemas.py.

Usage: revisions.py EXECUTABLE
"""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HANDSHAKE = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
STATELESS = "2026-07-28"
INFO = {"name": "topup-revisions", "version": "1"}
META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": INFO,
}


class Server:
    def __init__(self, executable, meta):
        self.process = subprocess.Popen(
            [executable], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.meta = meta
        self.last = 0

    def say(self, line):
        self.process.stdin.write((line if isinstance(line, str) else json.dumps(line)) + "\n")
        self.process.stdin.flush()

    def hear(self):
        return json.loads(self.process.stdout.readline())

    def request(self, method, params=None, **meta):
        self.last += 1
        params = dict(params or {})
        if self.meta or meta:
            params["_meta"] = self.meta | meta
        return {"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}

    def ask(self, method, params=None, **meta):
        """The reply, and how many notifications came before it."""
        self.say(self.request(method, params, **meta))
        told = 0
        while "id" not in (message := self.hear()):
            told += 1
        assert message["id"] == self.last, message
        return message, told

    def end(self):
        self.process.stdin.close()
        assert self.process.stdout.read() == ""
        assert self.process.wait() == 0


def evaluate(source, **more):
    return {"name": "eval", "arguments": {"source": source, **more}}


def converse(server):
    for method, params in [
        ("tools/list", None),
        ("tools/call", evaluate("1 + 1")),
        ("tools/call", evaluate("1 + true")),
        ("tools/call", {"name": "env"}),
        ("tools/call", {"name": "reset"}),
    ]:
        assert "result" in server.ask(method, params)[0]
    for method, params in [
        ("nosuch", None),
        ("tools/call", {"name": "nosuch"}),
        ("tools/call", {"name": 3}),
    ]:
        assert "error" in server.ask(method, params)[0]
    loop = evaluate("while true do () done", timeout=1.3)
    assert server.ask("tools/call", loop, progressToken="token")[1] > 0
    server.say("nonsense")
    assert server.hear()["error"]["code"] == -32700


def with_handshake(revision):
    server = Server(executable, {})
    greeting = {"protocolVersion": revision, "capabilities": {}, "clientInfo": INFO}
    assert server.ask("initialize", greeting)[0]["result"]["protocolVersion"] == revision
    server.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
    server.ask("ping")
    converse(server)
    server.say([server.request("ping"), server.request("tools/call", evaluate("1"))])
    assert isinstance(server.hear(), list) == (revision == "2025-03-26")
    server.end()


def stateless():
    server = Server(executable, META)
    server.ask("server/discover")
    converse(server)
    for wrong in [{"io.modelcontextprotocol/protocolVersion": "2099-01-01"}, {}]:
        server.meta = wrong
        assert "error" in server.ask("server/discover")[0]
    server.end()


executable = sys.argv[1]
with ThreadPoolExecutor() as at_once:
    conversations = [at_once.submit(with_handshake, revision) for revision in HANDSHAKE]
    conversations.append(at_once.submit(stateless))
    for conversation in conversations:
        conversation.result()
