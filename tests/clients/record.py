"""Stands between a client and a server and keeps every line, for schemas.py.

Usage: record.py FOLDER EXECUTABLE [ARGUMENT]...
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading

folder, *command = sys.argv[1:]
server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
signal.signal(signal.SIGTERM, lambda *_: server.terminate())
file, _ = tempfile.mkstemp(suffix=".lines", dir=folder)


def pass_on(mark, source, sink):
    """Line by line; a line is kept before it is passed on, so replies come after requests."""
    try:
        for line in source:
            os.write(file, mark + line.rstrip(b"\n") + b"\n")
            sink.write(line)
            sink.flush()
        sink.close()
    except OSError:
        source.close()


threading.Thread(target=pass_on, args=(b"> ", sys.stdin.buffer, server.stdin), daemon=True).start()
pass_on(b"< ", server.stdout, sys.stdout.buffer)
# The other thread may hold the lock of stdin, which an orderly exit would wait for.
os._exit(server.wait())
