#!/usr/bin/python3 -B
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Checks which lines the executed cache instructions touched, and between which fences.

    traced.py ARCH LINE EMULATOR MODEL PROGRAM [TASK]

The emulator logs each instruction of interest with the registers before it. Everything is derived
from the bits of the instructions, nothing from the program. LINE is the line size of MODEL. TASK is
the task of touch.cpp: trace, trapped, or order for the fences of a coherent device.
"""

import random
import re
import resource
import subprocess
import sys
import tempfile
from typing import Dict, Iterator, List, Tuple

from cpu_table import CPUS, Cpu

AREA = 0x700000000
Range = Tuple[int, int]
Event = Tuple[str, int]  # an instruction and its address


def require(condition: bool, description: str) -> None:
    if not condition:
        sys.exit(f"failed: {description}")


def limit_child() -> None:
    """Limits the log of a loop that does not end, in child processes too."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000_000, 100_000_000))


def output(*command: str) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, preexec_fn=limit_child)
    require(done.returncode == 0, f"{command[0]} ended with {done.returncode}: {done.stdout}")
    return done.stdout


def find_instructions(cpu: Cpu, program: str) -> Dict[int, Tuple[str, int]]:
    """pc -> name and bits, of the cache instructions and of mark()."""
    instructions: Dict[int, Tuple[str, int]] = {}
    function = ""
    mask = sum(31 << bit for bit in cpu.operands)
    for line in output(cpu.tools + "objdump", "-d", program).splitlines():
        if head := re.match(r"([0-9a-f]+) <(.*)>:", line):
            function = head[2]
            if function == "mark":
                instructions[int(head[1], 16)] = ("mark", 0)
        elif body := re.match(r" *([0-9a-f]+):\t((?:[0-9a-f]{2,8} ?)+)", line):
            bits = int("".join(reversed(body[2].split())), 16)
            name = cpu.codes.get(bits) or cpu.codes.get(bits & ~mask)
            if name and "coherdma5cache" in function:
                instructions[int(body[1], 16)] = (name, bits)
    return instructions


def executed(cpu: Cpu, emulator: str, model: str, command: List[str]) -> List[Event]:
    """The executed instructions, in order."""
    instructions = find_instructions(cpu, command[0])
    version = re.findall(r"version (\d+)", output(emulator, "--version"))
    one_by_one = "-singlestep" if int(version[0]) < 9 else "-one-insn-per-tb"
    with tempfile.NamedTemporaryFile("r") as log:
        output(
            *(emulator, "-cpu", model, one_by_one, "-d", "cpu,exec,nochain", "-D", log.name),
            *("-dfilter", ",".join(f"{pc:#x}+1" for pc in instructions)),
            *command,
        )
        return list(events(cpu, instructions, log.read()))


def events(cpu: Cpu, instructions: Dict[int, Tuple[str, int]], log: str) -> Iterator[Event]:
    for entry in re.split(r"^Trace ", log, flags=re.MULTILINE)[1:]:
        head, _, dump = entry.partition("\n")
        pc = int(head.split("[")[1].split("/")[1], 16)
        # An interrupt came before the instruction was executed.
        if pc not in instructions or "\nStopped execution" in dump:
            continue
        name, bits = instructions[pc]
        registers: Dict[int, int] = {}
        for first, contents in re.findall(cpu.register, dump):
            for more, value in enumerate(contents.split()):
                registers[int(first) + more] = int(value, 16)
        address = 0
        if name in (cpu.writeback[1], cpu.writeback_invalidate[1]):
            named = [(bits >> bit & 31, none) for bit, none in cpu.operands.items()]
            address = sum(registers[number] for number, none in named if number != none)
        yield name, address


def make_lists() -> List[List[Range]]:
    """Lists of ranges: edge cases, and random ones."""
    rng = random.Random(1)
    return [
        [(AREA, 1)],
        [(AREA + 255, 2)],
        [(AREA + 1, 4096)],
        [(AREA, 4096)],
        [(AREA + 0x1234, 40000)],
        [(AREA, 0), (AREA + 0x1000, 1)],
        [(AREA + 8 * part, 8) for part in range(40)],
        *(
            [(AREA + rng.randrange(100000), rng.randrange(700)) for _ in range(3)]
            for _ in range(30)
        ),
    ]


def lines(ranges: List[Range], line: int) -> List[int]:
    """Each line of each range; a line shared with the range before is not repeated."""
    result: List[int] = []
    for begin, length in ranges:
        numbers = sorted({byte // line for byte in range(begin, begin + length)})
        result += numbers[1:] if numbers and result[-1:] == numbers[:1] else numbers
    return result


def check_part(part: List[Event], expected: List[str], numbers: List[int], line: int) -> None:
    """Checks that part is a fence, the instruction for each line in any order, and a fence."""
    names = [name for name, _ in part]
    first, instruction, last = expected
    touched = sorted(address // line for name, address in part if name == instruction)
    missed, unexpected = set(numbers) - set(touched), set(touched) - set(numbers)
    require(not missed, f"{instruction} missed {len(missed)} of {len(numbers)} lines")
    require(not unexpected, f"{instruction} touched {len(unexpected)} lines of no range")
    require(touched == sorted(numbers), f"{instruction} touched lines more than once")
    order = [first] + [instruction] * len(numbers) + [last]
    require(names == order, f"{instruction} of {len(numbers)} lines is not within its fences")


def main(
    arch: str, size: str, emulator: str, model: str, program: str, task: str = "trace"
) -> None:
    cpu, line, lists = CPUS[arch], int(size), [] if task == "order" else make_lists()
    arguments = [",".join(f"{begin:x}+{length:x}" for begin, length in ranges) for ranges in lists]
    trace = executed(cpu, emulator, model, [program, task, *arguments])
    marks = [index for index, (name, _) in enumerate(trace) if name == "mark"]
    parts = [trace[begin + 1 : end] for begin, end in zip(marks, marks[1:])]
    if task == "order":
        require([[name for name, _ in part] for part in parts] == cpu.order, "unexpected fences")
        print(f"{model}: {cpu.order}")
        return
    # No instruction between the second operation on a list and the first on the next.
    require(len(parts) == 3 * len(lists) - 1 and not any(parts[2::3]), "unexpected number of parts")
    for i, ranges in enumerate(lists):
        check_part(parts[3 * i], cpu.writeback, lines(ranges, line), line)
        check_part(parts[3 * i + 1], cpu.writeback_invalidate, lines(ranges, line), line)
    total = sum(len(lines(ranges, line)) for ranges in lists)
    print(f"{model}: {total} lines of {line} in {len(lists)} lists, each by both instructions")


if __name__ == "__main__":
    main(*sys.argv[1:])
