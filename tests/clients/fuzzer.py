"""mcp-fuzzer: bad arguments for every tool, good and bad messages of every kind.

Usage: fuzzer.py EXECUTABLE
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

executable = sys.argv[1]
program = Path(sys.executable).with_name("mcp-fuzzer")
FIXED = ["--protocol", "stdio", "--endpoint", executable, "--seed", "1", "--no-corpus"]

# Some of what it sends is no JSON (Infinity). The answer to that has no id, so it waits in vain.
PATIENCE = ["--timeout", "1"]

# What the fuzzer says of any answer that is not an error. Notifications, pings, tools/list and
# well-formed calls are among its inputs, so this is no fault.
HARMLESS = "accepted_malformed"

for mode in [
    ["tools", "--phase", "both", "--runs", "5", "--fail-if-no-tools"],
    ["protocol", "--protocol-phase", "realistic", "--runs-per-type", "5"],
    ["protocol", "--protocol-phase", "aggressive", "--runs-per-type", "5"],
]:
    with tempfile.TemporaryDirectory(prefix="topup-fuzzer-") as folder:
        places = ["--output-dir", folder, "--fs-root", folder]
        run = subprocess.run(
            [program, "--mode", *mode, *FIXED, *PATIENCE, *places], capture_output=True, text=True
        )
        assert run.returncode == 0, run.stdout + run.stderr
        findings = json.loads((Path(folder) / "findings.json").read_text())["findings"]
        faults = [one for one in findings if one["category"] != HARMLESS]
        assert faults == [], json.dumps(faults, indent=1)[:5000]
        print(f"{' '.join(mode[:3])}: {len(findings)} findings, all of them {HARMLESS}")
