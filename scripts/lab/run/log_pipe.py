# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What a guest's kernel, or its emulator, prints: its end is kept in memory.

The process has one end of a pipe. It has no file: with one it could fill the disk.
"""

import contextlib
import fcntl
import os
import re
from typing import List, Optional

PANIC = re.compile(rb"^(?:\[[ 0-9.]*\] )?Kernel panic - not syncing", re.MULTILINE)
MAX_BYTES = 16_000_000
MAX_BYTES_PER_TURN = 4_000_000
PIPE_BYTES = 1 << 20
F_SETPIPE_SZ = 1031  # fcntl has it since Python 3.10
DROPPED = b"[softrdma: the output before this was dropped]\n"
# User mode tries whether it may make terminals on the host. It may not, and needs none.
EXPECTED_LINE = re.compile(rb"^.*check_one_sigio failed, errno = 13\n", re.MULTILINE)


class LogPipe:
    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.read_end, False)
        with contextlib.suppress(OSError):  # as far as the system allows
            fcntl.fcntl(self.read_end, F_SETPIPE_SZ, PIPE_BYTES)
        self.text = b""
        self.searched_bytes = 0  # of text: for a panic

    def close_write_end(self) -> None:
        """To be called when the process has started."""
        os.close(self.write_end)

    def read(self) -> None:
        """Take what the process has printed. Called often: the process waits if the pipe is full."""
        parts: List[bytes] = []
        count = 0
        while count < MAX_BYTES_PER_TURN:
            try:
                part = os.read(self.read_end, PIPE_BYTES)
            except BlockingIOError:
                break
            if not part:
                break
            parts.append(part)
            count += len(part)
        self.text += b"".join(parts)
        if len(self.text) > MAX_BYTES:
            num_dropped = len(self.text) - MAX_BYTES // 2
            self.text = DROPPED + self.text[num_dropped:]
            self.searched_bytes = max(0, self.searched_bytes + len(DROPPED) - num_dropped)

    def has_new_panic(self) -> bool:
        """Whether the kernel has printed a panic since the last call."""
        text = self.text[self.searched_bytes :]
        # The last line may be incomplete: it is searched again.
        self.searched_bytes += text.rfind(b"\n") + 1
        return bool(PANIC.search(text))

    def lines(self) -> List[str]:
        text = EXPECTED_LINE.sub(b"", self.text).decode(errors="replace")
        return [line.rstrip() for line in text.splitlines() if line.strip()]

    def append_to(self, file: Optional[str], host_number: int) -> None:
        """Append the output, if there is any, to the file of --console."""
        if not file:
            return
        self.read()
        text = EXPECTED_LINE.sub(b"", self.text)
        if text.strip():
            with contextlib.suppress(OSError), open(file, "ab") as target:
                target.write(b"== kernel of host %d\n" % host_number + text)
