# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The libraries of the system that are linked with a user-mode kernel, for its manifest.

A kernel is a static program: who passes it on needs the sources and the licenses of these.
"""

import os
from typing import Dict, Optional

from ..core import subprocesses
from ..core.errors import LabError

LINKED_FACT = "linked"
COMPILER_FACT = "compiler"
LIBRARIES = ("libc.a", "libgcc.a")
SOURCE_FIELDS = {"package": "Package", "source": "source:Package", "version": "source:Version"}

Library = Dict[str, str]  # the fields of SOURCE_FIELDS


def read_facts(environment: Dict[str, str]) -> Dict[str, object]:
    """The facts for the manifest. environment: that of the compiler."""
    version = subprocesses.capture_output(["gcc", "--version"], environment)
    return {COMPILER_FACT: version.partition("\n")[0], LINKED_FACT: find_libraries(environment)}


def find_libraries(environment: Dict[str, str]) -> Dict[str, Optional[Library]]:
    """Debian's package of each library that gcc links; None if no package has its file."""
    return {name: _find_package(name, environment) for name in LIBRARIES}


def _find_package(name: str, environment: Dict[str, str]) -> Optional[Library]:
    argv = ["gcc", f"-print-file-name={name}"]
    path = os.path.realpath(subprocesses.capture_output(argv, environment).strip())
    query = [
        "dpkg-query",
        "--showformat",
        "\\n".join(f"${{{field}}}" for field in SOURCE_FIELDS.values()),
    ]
    try:
        owner = subprocesses.capture_output(["dpkg-query", "--search", path]).partition(": ")[0]
        values = subprocesses.capture_output([*query, "--show", owner]).split("\n")
    except LabError:  # no dpkg, or the file is of no package
        return None
    return dict(zip(SOURCE_FIELDS, values))
