# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`softrdma wire`: changes the wire of a run, from beside it, or from a command in one of its guests."""

import os
import socket
from typing import Optional, Tuple

from ..core import progress, wire_change
from ..core.errors import OK, LabError, Unavailable, error_for_status
from ..core.wire_change import WireChange
from ..guest.agent import SOCKET_PATH
from ..protocol import frames
from ..protocol.stdio_client import CHUNK_BYTES
from . import run_local, shell_client

RUN_HAS_ENDED = "wire: the run has ended"


def change_wire(pid: Optional[int], change: WireChange) -> None:
    """Returns when the change is in effect. pid: of the run; None: the only one, or that of this guest."""
    with _connect(pid) as connection:
        try:
            connection.sendall(frames.encode(frames.WIRE, data=wire_change.encode(change)))
            status, reason = _receive_answer(connection)
        except OSError as problem:  # the run ends
            raise LabError(RUN_HAS_ENDED) from problem
    if status != OK:
        raise error_for_status(status, f"wire: {progress.escape(reason)}")


def _receive_answer(connection: socket.socket) -> Tuple[int, str]:
    """Returns a status, and the reason if it is not OK."""
    decoder, reason = frames.Decoder(), ""
    while data := connection.recv(CHUNK_BYTES):
        for kind, _, body in decoder.feed(data):
            if kind == frames.ERRORS:
                reason += body.decode(errors="replace")
            elif kind == frames.EXIT_STATUS:
                return frames.decode_number(body), reason
    raise LabError(f"{RUN_HAS_ENDED}, or its softrdma is an older one")


def _connect(pid: Optional[int]) -> socket.socket:
    if pid is None and os.path.exists(SOCKET_PATH):
        return _connect_to_agent()
    folder = shell_client.select_run(pid, "wire", "softrdma run --hosts 2 --wire -- COMMAND")
    if os.path.exists(os.path.join(folder, run_local.BIN_FOLDER)):
        raise Unavailable(
            "wire: the hosts of the run share the running kernel; change the qdisc netem of their interfaces by tc"
        )
    return shell_client.connect(folder, "wire")


def _connect_to_agent() -> socket.socket:
    """From a command in a guest."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(SOCKET_PATH)
    except PermissionError as problem:
        connection.close()
        raise Unavailable(
            "wire: only root of the guest may change the wire; type it as root"
        ) from problem
    except OSError as problem:
        connection.close()
        raise LabError(RUN_HAS_ENDED) from problem
    return connection
