# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What people see on stderr: notes, errors, and progress of long work.

Progress rewrites one line on a terminal. Elsewhere (a CI log) each step is
one line when it begins and, if it took long, one when it ends.
"""

import os
import shutil
import sys
import time
from typing import Any, List, Optional

quiet = False


def error(text: str) -> None:
    _line("softrdma: " + text)


def note(text: str) -> None:
    if not quiet:
        _line("softrdma: " + text)


def _line(text: str) -> None:
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:
        pass  # nobody reads us any more; the exit status still speaks


class Step:
    """One piece of long work: `with Step("downloading x") as step: step.at(0.4)`."""

    def __init__(self, what: str, expect: Optional[float] = None):
        self.what = what
        self.expect = expect
        self.began = time.monotonic()
        self.tty = sys.stderr.isatty() and not quiet
        self.drawn = 0.0

    def __enter__(self) -> "Step":
        if self.tty:
            self.at(None)
        else:
            about = f" (about {self.expect:.0f} s)" if self.expect else ""
            note(self.what + about)
        return self

    def at(self, share: Optional[float]) -> None:
        """Show where the work stands: its share done, if that is known."""
        now = time.monotonic()
        if not self.tty or now - self.drawn < 0.1:
            return
        self.drawn = now
        spent = now - self.began
        if share is None and self.expect:
            share = min(spent / self.expect, 0.99)
        parts = [f"softrdma: {self.what}"]
        if share is not None:
            parts.append(f"{share * 100:3.0f}%")
        parts.append(f"{spent:.0f} s")
        text = "  ".join(parts)[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write("\r\x1b[K" + text)
        sys.stderr.flush()

    def clear(self) -> None:
        if self.tty:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def __exit__(self, kind: object, *_: object) -> None:
        spent = time.monotonic() - self.began
        self.clear()
        if kind is None and spent >= 5:
            note(f"{self.what}: done in {spent:.0f} s")


def megabytes(count: float) -> str:
    return f"{count / 1e6:.0f} MB"


def home_relative(path: str) -> str:
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if home != "/" and path.startswith(home + "/") else path


def table(head: List[str], rows: List[List[Any]], empty: str) -> None:
    """Rows for people, on stdout; empty: what to say when there are none."""
    if not rows:
        print(empty)
        return
    texts = [head] + [["-" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in texts) for column in range(len(head))]
    for row in texts:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
