# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What a guest of either kind is asked to do."""

import os
from typing import Any, Dict, List

from .errors import Misuse


def make(drivers: List[str], hosts: int, argv: List[str]) -> Dict[str, Any]:
    """What the agent in a guest is told."""
    terminal = all(os.isatty(stream) for stream in (0, 1, 2))
    return {
        "argv": argv,
        "env": dict(os.environ),
        "cwd": os.getcwd(),
        "drivers": drivers,
        "hosts": hosts,
        "terminal": terminal,
        "size": tuple(os.get_terminal_size(0)) if terminal else None,
    }


def writable_folders(places: List[str]) -> List[str]:
    """The folders of --write, as absolute paths."""
    paths = []
    for place in places:
        path = os.path.abspath(place)
        if not os.path.isdir(path):
            raise Misuse(f"--write {place}: there is no such folder")
        if path == "/" or "\n" in path:
            raise Misuse(f"--write {place}: name a folder below /")
        paths.append(path)
    return paths
