# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Who may read the terminal that softrdma was started on."""

import os
import signal

from ..core import supervisor


def become_foreground(undo: supervisor.Undo) -> bool:
    """Make the worker's process group the foreground group of the terminal on stdin.

    It takes the place of the group that the shell started, that of the front process, which gets it
    back by undo. Returns whether stdin may be read: not if softrdma runs in the background.
    """
    if not os.isatty(0):
        return True
    try:
        front_group = os.getpgid(supervisor.front_pid())
        if os.tcgetpgrp(0) != front_group:
            return False
        undo.callback(os.tcsetpgrp, 0, front_group)
        # Ctrl-Z would stop the worker, and the shell continues only the group that it started.
        signal.signal(signal.SIGTSTP, signal.SIG_IGN)
        os.tcsetpgrp(0, os.getpgrp())
    except OSError:
        return False
    return True
