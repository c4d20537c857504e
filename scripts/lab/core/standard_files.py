# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Standard input, output and errors of a process whose caller has closed them."""

import os
import sys


def open_closed() -> None:
    """Open those that the caller has closed; otherwise other files get their numbers.

    To write to standard output is an error, as if it were closed.
    """
    for fd, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, flags), True)
    sys.stdin = sys.stdin or open(0, encoding="utf-8")
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8")
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8")
