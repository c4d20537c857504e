#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Runs the commands of a documentation page in one shell and compares what they print (TAP).

    run_page.py [--system] [--packages FILE] PAGE

A block ```console has commands, after "$ " ("> " continues a line), and what they print, unless the page
does not show it. There, "..." stands for any text, a number with a decimal point for any such number,
and a hexadecimal number for any other; white space and the notes of softrdma are not compared. A command
must succeed, unless the next one is `echo $?`. After a command that ends in "-- bash" the shell that it
starts reads the commands, to `exit`. A block of C that begins with /* FILE.c ... is written to that file.
The folder has the files of examples/. `sleep 1` gives a server time to start: here five seconds, as this
machine may be busy.

With --packages, the test is skipped unless the packages of this list of ci/ are installed.

Blocks with sudo change the system: they are skipped without --system, which is for a guest that has
coherdma's packages in /debs. Without it, the installed tree $BUILD/stage is mounted over /usr, for the
processes of this test only, as packages would install it.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from typing import List, NamedTuple, Tuple

NUMBERS = re.compile(r"\b0x[0-9a-f]+\b|(?<![\d.])\d+\.\d+(?![\d.])")
COMMENT = re.compile(r"\s+# .*$")  # at the end of a command
NOTES = re.compile(r"^softrdma: .*\n", re.MULTILINE)
TOP_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
EXAMPLES, CI_FOLDER = os.path.join(TOP_FOLDER, "examples"), os.path.join(TOP_FOLDER, "ci")
LIMIT = 600  # seconds; ends a hang


class Command(NamedTuple):
    text: str
    expected: str


class Block(NamedTuple):
    heading: str
    language: str
    text: str

    def commands(self) -> List[Command]:
        commands = []
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            match = re.match(r"([^\n]*\n(?:> [^\n]*\n)*)(.*)", part, re.DOTALL)
            assert match
            commands.append(Command(re.sub(r"^> ", "", match[1], flags=re.MULTILINE), match[2]))
        return commands


def blocks_of(page: str) -> List[Block]:
    """All blocks with a language, under their headings."""
    blocks, heading = [], ""
    pattern = r"^#+ ([^\n]*)\n|^```(\w+)[^\n]*\n(.*?)^```$"
    for match in re.finditer(pattern, page, re.MULTILINE | re.DOTALL):
        if match[1]:
            heading = match[1]
        else:
            blocks.append(Block(heading, match[2], match[3]))
    return blocks


def has_printed(expected: str, output: str) -> bool:
    pattern = r"\s+".join(re.escape(word) for word in NUMBERS.sub("NUMBER", expected).split())
    pattern = re.sub(r"(\\s\+)?\\\.\\\.\\\.(\\s\+)?", ".*", pattern)
    output = NUMBERS.sub("NUMBER", NOTES.sub("", output)).strip()
    return re.fullmatch(pattern, output, re.DOTALL) is not None


class Shell:
    """A shell that reads commands as a person types them: each when the one before has ended."""

    def __init__(self) -> None:
        environment = dict(os.environ, PS1="", LC_ALL="C.UTF-8")
        self.process = subprocess.Popen(
            ["timeout", str(LIMIT), "bash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        self.num_commands = 0
        self.status = 0  # of the last command; our printf follows it
        if os.getuid() == 0:
            self.send('sudo() { "$@"; }\n')
        self.opened: List[str] = []  # the marks of shells that this one has started

    def run(self, command: str) -> Tuple[str, int]:
        """What the command printed, and its exit status."""
        self.num_commands += 1
        mark = f"END-{self.num_commands}-{os.getpid()}"
        end = f"printf '\\n{mark} %d\\n' $?\n"
        # In braces, so that the shell has read the end when a command begins to read standard input.
        text = COMMENT.sub("", command.rstrip("\n"))
        text = re.sub(r"\bsleep 1\b", "sleep 5", text)
        if text == "echo $?":
            text = f"(exit {self.status}); echo $?"
        if text == "exit":
            mark = self.opened.pop()
            self.send("exit\n")
        elif text.endswith("-- bash"):
            self.opened.append("CLOSED-" + mark)
            self.send(f"{{ {text}; printf '\\nCLOSED-{mark} %d\\n' $?; }}\n" + end)
        else:
            self.send(f"{{ {text}\n{end}}}\n")
        output, self.status = self.read_until(mark)
        if self.opened and self.opened[-1] in output:
            # The next commands are for that shell, not for this machine.
            sys.exit(f"no shell began by: {text}\nit printed:\n{output}")
        return output, self.status

    def send(self, text: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def read_until(self, mark: str) -> Tuple[str, int]:
        assert self.process.stdout
        output = ""
        for line in self.process.stdout:
            text = line.decode(errors="replace")
            if text.startswith(mark + " "):
                return output[:-1], int(text.split()[1])
            output += text
        sys.exit(f"the shell ended, or did not end within {LIMIT} s; it printed:\n{output}")


def problem_of(command: Command, following: str, shell: Shell) -> str:
    """Runs the command; says how it differs from the page, or nothing."""
    output, status = shell.run(command.text)
    problem = ""
    if status != 0 and following != "echo $?\n":
        problem = f"exit status {status}"
    elif command.expected and not has_printed(command.expected, output):
        problem = f"not as on the page, which has:\n{command.expected}"
    if problem:
        problem = f"$ {command.text.rstrip()}\n{problem}\nit printed:\n{output}"
    return problem


def run_block(block: Block, shell: Shell) -> str:
    """The first problem of the block, or nothing."""
    commands = block.commands()
    if not commands:
        return f"no command in:\n{block.text}"
    for index, command in enumerate(commands):
        following = commands[index + 1].text if index + 1 < len(commands) else ""
        problem = problem_of(command, following, shell)
        if problem:
            return problem
    return ""


def first_line(block: Block) -> str:
    lines = (line for line in block.text.splitlines() if line.startswith("$ "))
    return COMMENT.sub("", next(lines, "")[2:]).rstrip(" \\")


def write_source(block: Block) -> None:
    match = re.match(r"/\* (\w+\.c)\b", block.text)
    if match:
        with open(match[1], "w", encoding="utf-8") as file:
            file.write(block.text)


def install_stage(folder: str) -> None:
    """Mounts the installed tree over /usr, with Debian's folder of libraries. Exits with 77 if it may not."""
    stage = os.path.join(os.environ["BUILD"], "stage", "usr")
    layer = os.path.join(folder, "layer")
    arch = subprocess.check_output(["gcc", "-print-multiarch"], text=True).strip()
    os.makedirs(os.path.join(layer, "lib"))
    subprocess.run(
        ["cp", "-a", os.path.join(stage, "lib"), os.path.join(layer, "lib", arch)], check=True
    )
    layers = f"lowerdir={layer}:{stage}:/usr"
    command = ["mount", "-t", "overlay", "-o", layers, "overlay", "/usr"]
    mount = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if mount.returncode != 0:
        print(f"1..0 # skip {mount.stderr.strip()}")
        sys.exit(77)


def require_packages(name: str) -> None:
    """Exits with 77 if packages of the list are missing."""
    with open(os.path.join(CI_FOLDER, name), encoding="utf-8") as file:
        required = [line.split()[0] for line in file if line.split()]
    query = ["dpkg-query", "-W", "-f", "${db:Status-Abbrev} ${Package}\n", *required]
    result = subprocess.run(
        query, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
    )
    installed = re.findall(r"^.i  *(\S+)$", result.stdout, re.MULTILINE)
    missing = [package for package in required if package not in installed]
    if missing:
        print(f"1..0 # skip not installed: {' '.join(missing)}; try: ci/setup {name}")
        sys.exit(77)


def enter_namespace() -> None:
    """Runs this program again with mounts of its own."""
    options = ["--mount"] if os.getuid() == 0 else ["--mount", "--map-root-user"]
    if subprocess.run(["unshare", *options, "true"], check=False).returncode != 0:
        print("1..0 # skip this user may not make a mount namespace")
        sys.exit(77)
    os.environ["DOCS_NAMESPACE"] = "1"
    os.execvp("unshare", ["unshare", *options, sys.executable, *sys.argv])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--system", action="store_true")
    parser.add_argument("--packages")
    parser.add_argument("page")
    arguments = parser.parse_args()
    if arguments.packages:
        require_packages(arguments.packages)
    if not arguments.system and "DOCS_NAMESPACE" not in os.environ:
        enter_namespace()
    with open(arguments.page, encoding="utf-8") as file:
        blocks = [block for block in blocks_of(file.read()) if block.language in ("console", "c")]
    with tempfile.TemporaryDirectory(prefix="docs.", dir="/var/tmp") as folder:
        if arguments.system:
            os.chdir("/debs")
        else:
            install_stage(folder)
            os.chdir(shutil.copytree(EXAMPLES, os.path.join(folder, "work")))
        shell = Shell()
        print(f"1..{sum(block.language == 'console' for block in blocks)}", flush=True)
        number = failed = 0
        for block in blocks:
            if block.language == "c":
                write_source(block)
                continue
            number += 1
            name = f"{block.heading}: {first_line(block)}"
            if "sudo " in block.text and not arguments.system:
                print(f"ok {number} {name} # skip changes the system", flush=True)
                continue
            problem = run_block(block, shell)
            failed += bool(problem)
            for line in problem.splitlines():
                print("#", line)
            print(f"{'not ' if problem else ''}ok {number} {name}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
