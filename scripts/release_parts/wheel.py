# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The wheel, for pip and pipx."""

import base64
import hashlib
import os
import stat
import time
import zipfile
from typing import Dict

from lab import VERSION

from .bill import KERNEL_LICENSE, LIBC_LICENSE, LIBGCC_LICENSE, OWN_LICENSE
from .material import ARCH, MIN_PYTHON, SUMMARY, Material
from .prefix import EXECUTABLE, READABLE, make_prefix, mode_of, set_first_line, walk

# A static program runs with any C library.
WHEEL_TAG = f"py3-none-manylinux_2_17_{ARCH}.musllinux_1_1_{ARCH}"

# Of the program, which is both sh and Python. It does not begin with #!python, which pip replaces by
# a path: the kernel starts none that has blanks or is long. Python is the one of the virtual
# environment, else one that is new enough; without -IS, the program would start it once more.
FIRST_LINES = f"""\
#!/bin/sh
''':'
folder=$(dirname "$(readlink -f "$0")")
for python in "$folder/python3" python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9; do
    "$python" -ISc 'import sys; sys.exit(sys.version_info < ({MIN_PYTHON.replace(".", ", ")}))' 2>/dev/null &&
        exec "$python" -IS "$0" "$@"
done
echo "softrdma: $0 needs Python {MIN_PYTHON} or newer, as python3 in $folder or in PATH; install it" >&2
exit 77
'''"""

LICENSES = f"({OWN_LICENSE}) AND {KERNEL_LICENSE} AND {LIBC_LICENSE} AND {LIBGCC_LICENSE}"


def make_wheel(material: Material, work: str) -> str:
    """The program is one of the wheel's scripts, the rest its data: files below the prefix."""
    prefix = os.path.join(work, "wheel")
    make_prefix(material, prefix)
    set_first_line(os.path.join(prefix, "bin", "softrdma"), FIRST_LINES)
    name = f"softrdma-{VERSION}"
    contents: Dict[str, bytes] = {}
    executables = set()
    for relative in walk(prefix):
        path = os.path.join(prefix, relative)
        if os.path.isdir(path):
            continue
        is_program = relative == "bin/softrdma"
        member = f"{name}.data/" + ("scripts/softrdma" if is_program else "data/" + relative)
        with open(path, "rb") as file:
            contents[member] = file.read()
        if mode_of(path) == EXECUTABLE:
            executables.add(member)
    info = f"{name}.dist-info"
    contents[f"{info}/WHEEL"] = wheel_tags().encode()
    contents[f"{info}/METADATA"] = metadata().encode()
    record = f"{info}/RECORD"
    lines = [f"{member},{record_digest(data)}" for member, data in sorted(contents.items())]
    contents[record] = "\n".join([*lines, f"{record},,", ""]).encode()
    path = os.path.join(work, f"{name}-{WHEEL_TAG}.whl")
    date = time.gmtime(material.seconds)[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for member, data in sorted(contents.items()):
            entry = zipfile.ZipInfo(member, date)
            mode = EXECUTABLE if member in executables else READABLE
            entry.external_attr = (stat.S_IFREG | mode) << 16
            entry.create_system = 3  # Unix, for the mode
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    return path


def wheel_tags() -> str:
    interpreter, abi, platforms = WHEEL_TAG.split("-")
    tags = "".join(f"Tag: {interpreter}-{abi}-{platform}\n" for platform in platforms.split("."))
    return f"Wheel-Version: 1.0\nGenerator: coherdma\nRoot-Is-Purelib: false\n{tags}"


def metadata() -> str:
    return f"""\
Metadata-Version: 2.1
Name: softrdma
Version: {VERSION}
Summary: {SUMMARY}
License: {LICENSES}
Requires-Python: >={MIN_PYTHON}
Classifier: Environment :: Console
Classifier: Operating System :: POSIX :: Linux
Classifier: Topic :: Software Development :: Testing
Description-Content-Type: text/plain

softrdma runs a command in a Linux kernel that is an ordinary process and has RDMA devices:

    softrdma run -- ibv_devinfo
    softrdma run --hosts 2 -- COMMAND

It needs no root, no module and no container engine, only Linux on {ARCH}.
"""


def record_digest(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"sha256={digest},{len(data)}"
