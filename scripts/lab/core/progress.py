# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Messages on stderr: notes, errors, and the progress of long steps. Results on stdout.

On a terminal, progress rewrites one line. Elsewhere (a CI log), a step prints
a line when it starts, and one when it ends if it took long.

Text of a guest, a peer or another program passes escape() where it enters a
message. What is printed has no control character but newlines and tabs.
"""

import os
import shutil
import sys
import time
from typing import Any, List, Optional

quiet = False
_line_end = "\n"
_shows_step = False  # on the line of the terminal where the next message begins
CLEAR_LINE = "\r\x1b[K"


def escape(text: str, kept: str = "") -> str:
    """Replace all characters that do not print, except those kept, by \\xNN or \\uNNNN."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in kept else _escape(char) for char in text)


def escape_lines(text: str) -> str:
    """As escape(), of text that has several lines."""
    return "\n".join(escape(line, "\t") for line in text.split("\n"))


def _escape(char: str) -> str:
    if "\udc80" <= char <= "\udcff":  # a byte that is no valid text, by surrogateescape
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape").decode("ascii")


def error(text: str) -> None:
    _print_line("softrdma: " + text)


def note(text: str) -> None:
    if not quiet:
        _print_line("softrdma: " + text)


def instruct(text: str) -> None:
    """What the user has to do now; also with --quiet."""
    _print_line("softrdma: " + text)


def end_lines_by(line_end: str) -> None:
    """Of messages on the terminal: CR LF while it is raw."""
    global _line_end
    _line_end = line_end


def _print_line(text: str) -> None:
    try:
        _clear_step()
        lines = escape_lines(text) + "\n"
        sys.stderr.write(lines.replace("\n", _line_end) if sys.stderr.isatty() else lines)
        sys.stderr.flush()
    except OSError:
        pass  # stderr is closed; the exit status remains


def _clear_step() -> None:
    global _shows_step
    if _shows_step:
        sys.stderr.write(CLEAR_LINE)
        sys.stderr.flush()
        _shows_step = False


class Step:
    """A long step: `with Step("downloading x") as step: step.update(0.4)`."""

    def __init__(self, title: str, expected_seconds: Optional[float] = None):
        self.title = title
        self.expected_seconds = expected_seconds
        self.start_time = time.monotonic()
        self.on_terminal = sys.stderr.isatty() and not quiet
        self.last_update = 0.0

    def __enter__(self) -> "Step":
        if self.on_terminal:
            self.update(None)
        else:
            expected = f" (about {self.expected_seconds:.0f} s)" if self.expected_seconds else ""
            note(self.title + expected)
        return self

    def update(self, fraction: Optional[float]) -> None:
        """Show the fraction that is done; None: estimate it from the expected time."""
        global _shows_step
        now = time.monotonic()
        if not self.on_terminal or now - self.last_update < 0.1:
            return
        self.last_update = now
        elapsed = now - self.start_time
        if fraction is None and self.expected_seconds:
            fraction = min(elapsed / self.expected_seconds, 0.99)
        parts = [f"softrdma: {self.title}"]
        if fraction is not None:
            parts.append(f"{fraction * 100:3.0f}%")
        parts.append(f"{elapsed:.0f} s")
        if fraction and elapsed > 3:
            parts.append(f"about {elapsed / fraction - elapsed:.0f} s left")
        text = escape("  ".join(parts))[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write(CLEAR_LINE + text)
        sys.stderr.flush()
        _shows_step = True

    def clear(self) -> None:
        _clear_step()

    def __exit__(self, exception_type: object, *_: object) -> None:
        elapsed = time.monotonic() - self.start_time
        self.clear()
        if exception_type is None and elapsed >= 5:
            note(f"{self.title}: done in {elapsed:.0f} s")


def format_megabytes(num_bytes: float) -> str:
    return f"{num_bytes / 1e6:.0f} MB"


def abbreviate_home(path: str) -> str:
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if home != "/" and path.startswith(home + "/") else path


def print_result(text: str) -> None:
    """Print a line on stdout."""
    print(escape(text))


def print_table(titles: List[str], rows: List[List[Any]], empty_text: str) -> None:
    """Print the rows on stdout; empty_text if there are none."""
    if not rows:
        print_result(empty_text)
        return
    texts = [["-" if cell is None else escape(str(cell)) for cell in row] for row in rows]
    cells = [titles, *texts]
    widths = [max(len(row[column]) for row in cells) for column in range(len(titles))]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
