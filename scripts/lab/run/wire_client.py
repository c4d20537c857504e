# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`softrdma wire`: changes the wire of a run, from beside it, or from a command in one of its guests."""

import os
import socket
from typing import Optional

from ..core import progress, wire_change
from ..core.errors import OK, LabError, Unavailable, error_for_status
from ..core.wire_change import WireChange
from ..guest.agent import SOCKET_PATH
from ..protocol import frames
from ..protocol.stdio_client import CHUNK_BYTES
from . import run_local, shell_client


def change_wire(pid: Optional[int], change: WireChange) -> None:
    """Returns when the change is in effect. pid: of the run; None: the only one, or that of this guest."""
    decoder, reason = frames.Decoder(), ""
    with _connect(pid) as connection:
        connection.sendall(frames.encode(frames.WIRE, data=wire_change.encode(change)))
        while data := connection.recv(CHUNK_BYTES):
            for kind, _, body in decoder.feed(data):
                if kind == frames.ERRORS:
                    reason += body.decode(errors="replace")
                elif kind == frames.EXIT_STATUS:
                    status = frames.decode_number(body)
                    if status != OK:
                        raise error_for_status(status, f"wire: {progress.escape(reason)}")
                    return
    raise LabError("wire: the run has ended, or its softrdma is an older one")


def _connect(pid: Optional[int]) -> socket.socket:
    if pid is None and os.path.exists(SOCKET_PATH):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(SOCKET_PATH)
        return connection
    folder = shell_client.select_run(pid, "wire")
    if os.path.exists(os.path.join(folder, run_local.BIN_FOLDER)):
        raise Unavailable(
            "wire: the hosts of the run share the running kernel; change the qdisc netem of their interfaces by tc"
        )
    return shell_client.connect(folder, "wire")
