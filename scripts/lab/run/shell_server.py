# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The socket of a run, by which `softrdma shell` starts commands in it.

It is in the run's folder, which other users cannot enter. Each connection is for one command.
"""

import contextlib
import os
import select
import socket
from typing import Dict, Iterator, List, Tuple

from ..core import supervisor
from ..core.errors import UsageError
from ..protocol import frames
from ..protocol.stdio_client import CHUNK_BYTES

SOCKET_NAME = "shell"
BACKLOG = 16


def path_in(folder_fd: int) -> str:
    """A path of the socket that is short enough for an address, whatever the folder's path is."""
    return f"/proc/self/fd/{folder_fd}/{SOCKET_NAME}"


def mark_without_socket(run_folder: str) -> None:
    """Put a file in the place of the socket, so that `softrdma shell` does not wait for it."""
    with open(os.path.join(run_folder, SOCKET_NAME), "xb"):
        pass


class _Connection:
    def __init__(self, peer: socket.socket, number: int):
        self.peer = peer
        self.number = number  # unlike the descriptor's, of this connection alone
        self.decoder = frames.Decoder()
        self.outgoing = b""


class ShellServer:
    """Accepts connections, and decodes and encodes their frames. Its descriptor is readable when there is work."""

    def __init__(self, run_folder: str, undo: supervisor.Undo):
        self.epoll = undo.enter_context(select.epoll())
        self.connections: Dict[int, _Connection] = {}  # by number
        self.num_connections = 0
        self.listener = undo.enter_context(socket.socket(socket.AF_UNIX))
        self.listener.setblocking(False)
        folder_fd = os.open(run_folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # It gets its name when it can be connected to.
            new_path = path_in(folder_fd) + ".new"
            self.listener.bind(new_path)
            self.listener.listen(BACKLOG)
            os.rename(new_path, path_in(folder_fd))
        finally:
            os.close(folder_fd)
        self.epoll.register(self.listener, select.EPOLLIN)

    def fileno(self) -> int:
        return self.epoll.fileno()

    def receive(self) -> Iterator[Tuple[int, bytes, bytes]]:
        """Do what is possible without blocking. Yields frames: the connection's number, kind, body.

        The last frame of each connection is KILL.
        """
        connection_at = {each.peer.fileno(): each for each in self.connections.values()}
        for fd, events in self.epoll.poll(0):
            if fd == self.listener.fileno():
                self._accept()
                continue
            connection = connection_at[fd]
            if events & select.EPOLLOUT:
                self._send_outgoing(connection)
            if events & ~select.EPOLLOUT:
                for kind, body in self._read(connection):
                    yield connection.number, kind, body
                    if kind == frames.KILL:
                        del self.connections[connection.number]
                        connection.peer.close()
                        break

    def close(self) -> None:
        """End all connections, and accept no more."""
        self.listener.close()
        for connection in self.connections.values():
            connection.peer.close()
        self.connections.clear()

    def reject(self, number: int, reason: str, has_terminal: bool = False) -> None:
        """Report an error instead of what a command does. A terminal is raw by now."""
        newline = "\r\n" if has_terminal else "\n"
        self.send(number, frames.ERRORS, f"softrdma: {reason}{newline}".encode())
        self.send(number, frames.EXIT_STATUS, frames.NUMBER.pack(UsageError.status))

    def send(self, number: int, kind: bytes, body: bytes) -> None:
        """Send the frame, if the connection is still there."""
        if number in self.connections:
            self.connections[number].outgoing += frames.encode(kind, data=body)
            self._send_outgoing(self.connections[number])

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it has ended, or there are too many files
            peer, _ = self.listener.accept()
            peer.setblocking(False)
            self.num_connections += 1
            self.connections[self.num_connections] = _Connection(peer, self.num_connections)
            self.epoll.register(peer, select.EPOLLIN)

    def _read(self, connection: _Connection) -> List[Tuple[bytes, bytes]]:
        try:
            data = connection.peer.recv(CHUNK_BYTES)
            read = [(kind, body) for kind, _, body in connection.decoder.feed(data)]
        except BlockingIOError:
            return []
        except (OSError, ValueError):
            data, read = b"", []
        if not data or any(kind not in frames.TO_COMMAND for kind, _ in read):
            read.append((frames.KILL, b""))
        return read

    def _send_outgoing(self, connection: _Connection) -> None:
        with contextlib.suppress(OSError):  # it has ended, which _read() notices, or takes no more
            count = connection.peer.send(connection.outgoing)
            connection.outgoing = connection.outgoing[count:]
        events = select.EPOLLIN | (select.EPOLLOUT if connection.outgoing else 0)
        self.epoll.modify(connection.peer, events)
