#!/usr/bin/python3 -B
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Checks the fences for coherent devices with herd7 and the memory model of each CPU.

Each CLAIM of CPU-CLAIM.litmus is a run that the fence must forbid. FENCE there stands for the fence
of ORDERING_OPS in ibverbs-glue/cache/CPU.cpp; then for one that is too weak and must permit the
run, so that the test can fail. A device is a thread with full fences: it snoops the cache.

The models have no device memory, so they do not tell whether a store to a doorbell stays behind a
fence, and no cache that a device does not snoop. That of x86-64 has no non-temporal accesses, the
only ones that need a fence there. For these the comments in cache/ name the manuals.

HERD7 is the command, with options, such as -set-libdir; by default herd7. Status 77: it is missing.
It is in herdtools7, which Debian has no package of; 7.57 builds with bookworm's OCaml and dune.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from typing import List

FOLDER = os.path.dirname(os.path.realpath(__file__))
CACHE = os.path.join(FOLDER, "..", "..", "ibverbs-glue", "cache")
BEFORE_READ, AROUND_WRITE = 0, 1  # the arguments of only_order()
BOTH = (BEFORE_READ, AROUND_WRITE)  # before a Write the former is used if the phase is known

# Claim: which fences make it, and which fences of each CPU are too weak.
CLAIMS = {
    "stores": (BOTH, {"aarch64": "DMB OSHLD", "riscv64": "fence r,rw", "ppc64le": ""}),
    "observed": (BOTH, {"aarch64": "DMB OSHST", "riscv64": "fence w,rw", "ppc64le": "eieio"}),
    "loads": (BOTH, {"aarch64": "DMB OSHST", "riscv64": "fence w,rw", "ppc64le": "eieio"}),
    "completion": (
        (AROUND_WRITE,),
        {"aarch64": "DMB OSHST", "riscv64": "fence iorw,ow", "ppc64le": "eieio"},
    ),
}
CPUS = ("aarch64", "riscv64", "ppc64le")


def find_fences(cpu: str) -> List[str]:
    """The instructions of only_order() in the CPU's file."""
    with open(os.path.join(CACHE, f"{cpu}.cpp"), encoding="utf-8") as file:
        source = file.read()
    names = re.search(r"ORDERING_OPS = only_order\((\w+), (\w+)\)", source)
    assert names, f"{cpu}.cpp has no ORDERING_OPS"
    fences = []
    for name in names.groups():
        body = re.search(rf'void {name}\(\) noexcept {{\n    asm volatile\("([^"]+)"', source)
        assert body, f"{cpu}.cpp: {name} is not one instruction"
        fences.append(body[1].upper() if cpu == "aarch64" else body[1].replace(", ", ","))
    return fences


def observe(herd: List[str], cpu: str, claim: str, fence: str) -> str:
    """Never, Sometimes or Always."""
    with open(os.path.join(FOLDER, f"{cpu}-{claim}.litmus"), encoding="utf-8") as file:
        test = file.read()
    assert test.count("FENCE") == 1
    with tempfile.NamedTemporaryFile("w", suffix=".litmus") as copy:
        copy.write(test.replace("FENCE", fence))
        copy.flush()
        done = subprocess.run([*herd, copy.name], capture_output=True, text=True, check=False)
    result = re.search(r"^Observation \S+ (\w+)", done.stdout, re.MULTILINE)
    if not result:
        sys.exit(f"{cpu}-{claim}.litmus with '{fence}': {done.stdout}{done.stderr}")
    return result[1]


def main() -> int:
    herd = shlex.split(os.environ.get("HERD7", "herd7"))
    if not shutil.which(herd[0]):
        print(f"no {herd[0]}, a simulator of memory models; it is in herdtools7")
        return 77
    failures = 0
    for cpu in CPUS:
        fences = find_fences(cpu)
        for claim, (positions, weak) in CLAIMS.items():
            runs = [(fences[position], "Never") for position in positions]
            for fence, expected in [*dict.fromkeys(runs), (weak[cpu], "Sometimes")]:
                result = observe(herd, cpu, claim, fence)
                failures += result != expected
                passed = "ok" if result == expected else f"not ok, expected {expected}"
                print(f"{cpu} {claim}, {fence or 'no fence'}: {result}: {passed}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
