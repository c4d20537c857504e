# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Who may read the terminal that softrdma was started on."""

import contextlib
import os
import signal

from ..core import supervisor


def become_foreground(undo: supervisor.Undo, has_terminal: bool) -> bool:
    """Put the worker in the foreground of the terminal on stdin. Returns whether stdin may be read.

    It may not if softrdma runs in the background.
    has_terminal: the command has the terminal for itself; else it is one of a pipeline, as in `softrdma run | less`.
    """
    if not os.isatty(0):
        return True
    try:
        front_group = os.getpgid(supervisor.front_pid())
        if os.tcgetpgrp(0) != front_group:
            return False
        if has_terminal:
            _take_foreground(undo, front_group)
        else:
            _join_group(undo, front_group)
    except OSError:
        return False
    return True


def _take_foreground(undo: supervisor.Undo, front_group: int) -> None:
    """The worker's group takes the place of the one that the shell started, which gets it back by undo."""
    undo.callback(_return_foreground, front_group)
    # Ctrl-Z would stop the worker, and the shell continues only the group that it started.
    signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    os.tcsetpgrp(0, os.getpgrp())


def _return_foreground(front_group: int) -> None:
    with contextlib.suppress(OSError):
        if os.tcgetpgrp(0) == os.getpgrp():  # else the shell has taken it
            os.tcsetpgrp(0, front_group)


def _join_group(undo: supervisor.Undo, front_group: int) -> None:
    """The terminal's signals are for all of the pipeline, and for the worker: not twice."""
    undo.callback(os.setpgid, 0, 0)
    signal.signal(supervisor.TERMINAL_SIGNAL, signal.SIG_IGN)
    os.setpgid(0, front_group)
