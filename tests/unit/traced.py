#!/usr/bin/python3 -B
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Which lines the instructions that a CPU executed really touched, and between which fences.

    traced.py ARCH LINE EMULATOR MODEL PROGRAM [TASK]

The emulator writes down every instruction of interest as it executes it, with the registers
before it. Nothing of the program's is believed: not its loop, not its size of a line, and no
name of an instruction, for all is read from the instruction's bits. LINE is what that model has.
TASK is how the program is asked to trace, or order for what a coherent device gets.
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
Event = Tuple[str, int]  # an instruction's name, and the address that it was given


def require(good: bool, what: str) -> None:
    if not good:
        sys.exit(f"wrong: {what}")


def limited() -> None:
    """A loop that does not end fills no disk, not even one in a child of the program's."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000_000, 100_000_000))


def output(*command: str) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, preexec_fn=limited)
    require(done.returncode == 0, f"{command[0]} ended with {done.returncode}: {done.stdout}")
    return done.stdout


def interesting(cpu: Cpu, program: str) -> Dict[int, Tuple[str, int]]:
    """place -> name and bits, of our functions' instructions and of the mark."""
    found: Dict[int, Tuple[str, int]] = {}
    function = ""
    mask = sum(31 << bit for bit in cpu.operands)
    for line in output(cpu.tools + "objdump", "-d", program).splitlines():
        if head := re.match(r"([0-9a-f]+) <(.*)>:", line):
            function = head[2]
            if function == "mark":
                found[int(head[1], 16)] = ("mark", 0)
        elif body := re.match(r" *([0-9a-f]+):\t((?:[0-9a-f]{2,8} ?)+)", line):
            bits = int("".join(reversed(body[2].split())), 16)
            name = cpu.codes.get(bits) or cpu.codes.get(bits & ~mask)
            if name and "coherdma5cache" in function:
                found[int(body[1], 16)] = (name, bits)
    return found


def executed(cpu: Cpu, emulator: str, model: str, command: List[str]) -> List[Event]:
    """What was executed, in order."""
    places = interesting(cpu, command[0])
    version = re.findall(r"version (\d+)", output(emulator, "--version"))
    one_by_one = "-singlestep" if int(version[0]) < 9 else "-one-insn-per-tb"
    with tempfile.NamedTemporaryFile("r") as log:
        output(
            *(emulator, "-cpu", model, one_by_one, "-d", "cpu,exec,nochain", "-D", log.name),
            *("-dfilter", ",".join(f"{place:#x}+1" for place in places)),
            *command,
        )
        return list(events(cpu, places, log.read()))


def events(cpu: Cpu, places: Dict[int, Tuple[str, int]], log: str) -> Iterator[Event]:
    for entry in re.split(r"^Trace ", log, flags=re.MULTILINE)[1:]:
        head, _, dump = entry.partition("\n")
        place = int(head.split("[")[1].split("/")[1], 16)
        # Stopped: by an interrupt, before it was executed.
        if place not in places or "\nStopped execution" in dump:
            continue
        name, bits = places[place]
        registers: Dict[int, int] = {}
        for first, contents in re.findall(cpu.register, dump):
            for more, value in enumerate(contents.split()):
                registers[int(first) + more] = int(value, 16)
        address = 0
        if name in (cpu.clean[1], cpu.flush[1]):
            named = [(bits >> bit & 31, none) for bit, none in cpu.operands.items()]
            address = sum(registers[number] for number, none in named if number != none)
        yield name, address


def plan() -> List[List[Range]]:
    """Lists of ranges: those that have gone wrong elsewhere, and some by chance."""
    chance = random.Random(1)
    return [
        [(AREA, 1)],
        [(AREA + 255, 2)],
        [(AREA + 1, 4096)],
        [(AREA, 4096)],
        [(AREA + 0x1234, 40000)],
        [(AREA, 0), (AREA + 0x1000, 1)],
        [(AREA + 8 * part, 8) for part in range(40)],
        *(
            [(AREA + chance.randrange(100000), chance.randrange(700)) for _ in range(3)]
            for _ in range(30)
        ),
    ]


def lines(ranges: List[Range], line: int) -> List[int]:
    """Each line that a byte of a range is in, but the last one of the range before not again."""
    found: List[int] = []
    for begin, length in ranges:
        numbers = sorted({byte // line for byte in range(begin, begin + length)})
        found += numbers[1:] if numbers and found[-1:] == numbers[:1] else numbers
    return found


def between(got: List[Event], wanted: List[str], numbers: List[int], line: int) -> None:
    """got is a fence, the instruction for each of the lines in whatever order, and a fence."""
    names = [name for name, _ in got]
    first, instruction, last = wanted
    touched = sorted(address // line for name, address in got if name == instruction)
    missed, needless = set(numbers) - set(touched), set(touched) - set(numbers)
    require(not missed, f"{instruction} missed {len(missed)} of {len(numbers)} lines")
    require(not needless, f"{instruction} touched {len(needless)} lines of no range")
    require(touched == sorted(numbers), f"{instruction} touched lines more than once")
    order = [first] + [instruction] * len(numbers) + [last]
    require(names == order, f"{instruction} of {len(numbers)} lines is not within its fences")


def main(
    arch: str, size: str, emulator: str, model: str, program: str, task: str = "trace"
) -> None:
    cpu, line, lists = CPUS[arch], int(size), [] if task == "order" else plan()
    words = [",".join(f"{begin:x}+{length:x}" for begin, length in each) for each in lists]
    got = executed(cpu, emulator, model, [program, task, *words])
    marks = [place for place, (name, _) in enumerate(got) if name == "mark"]
    parts = [got[begin + 1 : end] for begin, end in zip(marks, marks[1:])]
    if task == "order":
        require([[name for name, _ in part] for part in parts] == cpu.order, "the fences")
        print(f"{model}: {cpu.order}")
        return
    # Behind the flush of one list and before the clean of the next there is nothing.
    require(len(parts) == 3 * len(lists) - 1 and not any(parts[2::3]), "the number of parts")
    for number, each in enumerate(lists):
        between(parts[3 * number], cpu.clean, lines(each, line), line)
        between(parts[3 * number + 1], cpu.flush, lines(each, line), line)
    total = sum(len(lines(each, line)) for each in lists)
    print(f"{model}: {total} lines of {line} in {len(lists)} lists, each by both instructions")


if __name__ == "__main__":
    main(*sys.argv[1:])
