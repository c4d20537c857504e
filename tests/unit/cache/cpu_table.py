# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The opcodes of each CPU, and the sequences that traced.py expects."""

from typing import Dict, List, NamedTuple, Optional


class Cpu(NamedTuple):
    tools: str  # prefix of binutils
    operands: Dict[int, Optional[int]]  # operand registers: first bit, and the number that means 0
    register: str  # in the emulator's dump: number of the first, and the values
    codes: Dict[int, str]  # instructions of interest, with operands of 0
    writeback: List[str]  # fence, instruction, fence
    writeback_invalidate: List[str]
    order: List[List[str]]  # fences for a coherent device: before a Read, around a Write


CPUS = {
    "aarch64": Cpu(
        "aarch64-linux-gnu-",
        {0: 31},
        r"X(\d\d)=([0-9a-f]{16})",
        {
            0xD50B7A20: "dc cvac",
            0xD50B7E20: "dc civac",
            0xD5033F9F: "dsb sy",
            0xD5033FBF: "dmb sy",
            0xD50333BF: "dmb osh",
        },
        ["dmb sy", "dc cvac", "dsb sy"],
        ["dsb sy", "dc civac", "dsb sy"],
        [["dmb osh"], ["dmb osh"]],
    ),
    "ppc64le": Cpu(
        "powerpc64le-linux-gnu-",
        {16: 0, 11: None},
        r"GPR(\d\d)((?: [0-9a-f]{16})+)",
        {0x7C00006C: "dcbst", 0x7C0000AC: "dcbf", 0x7C0004AC: "sync"},
        ["sync", "dcbst", "sync"],
        ["sync", "dcbf", "sync"],
        [["sync"], ["sync"]],
    ),
    "riscv64": Cpu(
        "riscv64-linux-gnu-",
        {15: 0},
        r"x(\d+)/\w+ +([0-9a-f]{16})",
        {
            0x0010200F: "cbo.clean",
            0x0020200F: "cbo.flush",
            0x0FF0000F: "fence iorw,iorw",
            0x0A10000F: "fence ir,w",
            0x0F50000F: "fence iorw,ow",
        },
        ["fence ir,w", "cbo.clean", "fence iorw,iorw"],
        ["fence iorw,iorw", "cbo.flush", "fence iorw,iorw"],
        [["fence iorw,ow"], ["fence iorw,iorw"]],
    ),
}
