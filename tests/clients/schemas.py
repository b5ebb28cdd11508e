"""Checks what servers said, as record.py kept it, against the published schema of each
message's revision; mcp-fuzzer carries them. Usage: schemas.py FOLDER
"""

import json
import sys
from collections import Counter
from pathlib import Path

import mcp_fuzzer
from jsonschema.validators import validator_for

SCHEMAS = Path(mcp_fuzzer.__file__).parent / "schemas" / "mcp-spec" / "schema"
REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
VERSION = "io.modelcontextprotocol/protocolVersion"
RESULTS = {
    "initialize": "InitializeResult",
    "ping": "EmptyResult",
    "server/discover": "DiscoverResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
}


class Schema:
    """The published schema of a revision."""

    def __init__(self, revision):
        schema = json.loads((SCHEMAS / revision / "schema.json").read_text())
        self.table = "$defs" if "$defs" in schema else "definitions"
        self.names = schema[self.table].keys()
        self.whole = validator_for(schema)(schema)

    def check(self, instance, *names):
        """The first of `names` that the revision has."""
        name = next(name for name in names if name in self.names)
        self.whole.evolve(schema={"$ref": f"#/{self.table}/{name}"}).validate(instance)


class Conversation:
    """One connection: what was asked, and in which revision."""

    def __init__(self):
        self.agreed = REVISIONS[0]
        self.latest = self.agreed
        self.asked = {}
        self.progress = {}

    def heard(self, message):
        """From the client; it may be malformed in any way."""
        for one in message if isinstance(message, list) else [message]:
            if not isinstance(one, dict):
                continue
            params = one.get("params")
            meta = params.get("_meta") if isinstance(params, dict) else None
            meta = meta if isinstance(meta, dict) else {}
            stateless = meta.get(VERSION) is not None or one.get("method") == "server/discover"
            revision = REVISIONS[-1] if stateless else self.agreed
            if "id" in one:
                self.latest = revision
                self.asked.setdefault(json.dumps(one["id"]), []).append((one.get("method"), revision))
            self.progress[json.dumps(meta.get("progressToken"))] = revision

    def said(self, message):
        """From the server. Returns the revision that it was found valid in."""
        if isinstance(message, list):
            assert self.agreed == "2025-03-26", "a batch"
            SCHEMA[self.agreed].check(message, "JSONRPCBatchResponse")
            return [self.said(one) for one in message][0]
        if "method" in message:
            revision = self.progress[json.dumps(message["params"]["progressToken"])]
            SCHEMA[revision].check(message, "JSONRPCNotification")
            SCHEMA[revision].check(message, "ServerNotification")
            return revision
        if message.get("id") is None:
            return self.unaddressed(message)
        asked = self.asked.get(json.dumps(message["id"]))
        assert asked, "an answer to nothing that was asked"
        method, revision = asked.pop(0)
        if "error" in message:
            SCHEMA[revision].check(message, "JSONRPCErrorResponse", "JSONRPCError")
            return revision
        if method == "initialize":
            revision = self.agreed = message["result"]["protocolVersion"]
        SCHEMA[revision].check(message, "JSONRPCResultResponse", "JSONRPCResponse")
        SCHEMA[revision].check(message["result"], RESULTS[method])
        return revision

    def unaddressed(self, message):
        """An error about a message whose id could not be read. JSON-RPC wants a null there;
        the schemas knew no such error before 2025-11-25, which leaves the id out."""
        revision = self.latest
        if revision < "2025-11-25":
            assert "id" in message, "an error without id"
            message = message | {"id": 0}
        SCHEMA[revision].check(message, "JSONRPCErrorResponse", "JSONRPCError")
        return revision


SCHEMA = {revision: Schema(revision) for revision in REVISIONS}
valid, faults = Counter(), []
for path in sorted(Path(sys.argv[1]).rglob("*.lines")):
    conversation = Conversation()
    for line in path.read_bytes().splitlines():
        mark, text = line[:2], line[2:]
        try:
            message = json.loads(text)
        except ValueError:
            if mark == b"< ":
                faults.append((path, text, "not JSON"))
            continue
        if mark == b"> ":
            conversation.heard(message)
            continue
        try:
            valid[conversation.said(message)] += 1
        except Exception as error:
            faults.append((path, text, f"{type(error).__name__}: {getattr(error, 'message', error)}"))

for path, text, reason in faults[:20]:
    print(f"{path}: {reason}\n    {text[:400].decode(errors='replace')}")
missing = [revision for revision in REVISIONS if not valid[revision]]
print(", ".join(f"{revision}: {valid[revision]}" for revision in REVISIONS), "messages are valid")
if faults or missing:
    sys.exit(f"{len(faults)} are not; nothing was said in {missing or 'no revision'}")
