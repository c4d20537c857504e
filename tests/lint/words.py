#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Finds words of words.txt.

    words.py identifiers COMPILE_COMMANDS FOLDER...   names declared in C++ and Python
    words.py prose FILE...                            comments, messages and documents

Names are taken from the syntax trees, of clang and of Python, so that only declarations count.
Exit status: 0 no word found, 1 words found, 2 a file cannot be read or parsed.
"""

import ast
import json
import multiprocessing
import os
import re
import shlex
import sys
from typing import Any, Dict, Iterator, List, Set, Tuple

import clang.cindex
from clang.cindex import CursorKind

Name = Tuple[str, int, str]  # file, line, name


def read_list(pattern: str) -> List[Any]:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "words.txt")
    with open(path, encoding="utf-8") as file:
        return re.findall(f"^{pattern}$", file.read(), re.MULTILINE)


def words_of(kind: str) -> Dict[str, str]:
    return dict(read_list(rf"{kind} ([^:\n]+): (.*)"))


def parse_flags(command: str) -> List[str]:
    arguments = shlex.split(command)
    flags = [arg for arg in arguments if re.match(r"-[ID].|-std=", arg)]
    for arg, value in zip(arguments, arguments[1:]):
        if arg in ("-isystem", "-include"):
            flags += [arg, value]
    return flags


Job = Tuple[str, List[str], List[str]]  # file, flags, folders


def compile_jobs(database: str, folders: List[str]) -> List[Job]:
    """The fewest translation units that include every source of the folders once. In a unity build
    most are files of the build folder, which include the sources."""
    units = {}
    with open(database, encoding="utf-8") as file:
        for entry in json.load(file):
            path = os.path.realpath(os.path.join(entry["directory"], entry["file"]))
            sources = {path}
            if "/Unity/" in path:
                with open(path, encoding="utf-8") as unity:
                    sources = set(re.findall(r'#include "([^"]+)"', unity.read()))
            sources = {each for each in sources if each.startswith(tuple(folders))}
            units[path] = (sources, parse_flags(entry["command"]))
    jobs: List[Job] = []
    done: Set[str] = set()
    for path, (sources, flags) in sorted(units.items(), key=lambda unit: -len(unit[1][0])):
        if sources - done:
            jobs.append((path, flags, folders))
            done |= sources
    return jobs


def declared_in_cxx(job: Job) -> Tuple[Set[Name], List[str]]:
    path, flags, folders = job
    unit = clang.cindex.Index.create().parse(path, args=flags)
    errors = [f"{path}: {each}" for each in unit.diagnostics if each.severity >= each.Error]
    names: Set[Name] = set()

    def visit(parent: clang.cindex.Cursor) -> None:
        for cursor in parent.get_children():
            file = cursor.location.file
            inside = file and os.path.realpath(file.name).startswith(tuple(folders))
            if parent.kind == CursorKind.TRANSLATION_UNIT and not inside:
                continue
            if cursor.kind.is_declaration() and cursor.spelling and inside:
                names.add((os.path.realpath(file.name), cursor.location.line, cursor.spelling))
            visit(cursor)

    visit(unit.cursor)
    return names, errors


def declared_in_python(path: str) -> Iterator[Name]:
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read(), path)
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield path, node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield path, node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield path, node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield path, node.lineno, node.attr


def is_python(path: str) -> bool:
    if path.endswith(".py"):
        return True
    with open(path, "rb") as file:
        return file.read(2) == b"#!" and b"python" in file.readline()


def check_identifiers(database: str, folders: List[str]) -> int:
    words = words_of("identifier")
    folders = [os.path.realpath(folder) + "/" for folder in folders]
    jobs = compile_jobs(database, folders)
    names: Set[Name] = set()
    errors: List[str] = []
    with multiprocessing.Pool() as pool:
        for more, bad in pool.imap_unordered(declared_in_cxx, jobs):
            names |= more
            errors += bad
    for folder in folders:
        for parent, _, files in os.walk(folder):
            for path in (os.path.join(parent, each) for each in files):
                if is_python(path):
                    names.update(declared_in_python(path))
    if errors or not names:
        print("\n".join(errors) or f"no declaration in {' '.join(folders)}: is {database} current?")
        return 2
    bad_names = sorted(name for name in names if name[2] in words)
    for path, line, name in bad_names:
        print(f"{os.path.relpath(path)}:{line}: '{name}' is not a name; use {words[name]}")
    return 1 if bad_names else 0


def check_prose(paths: List[str]) -> int:
    words = words_of("prose")
    pattern = re.compile(r"\b(%s)\b" % "|".join(map(re.escape, words)), re.IGNORECASE)
    allowed = re.compile("|".join(map(re.escape, read_list(r"allow (.*)"))))
    status = 0
    for path in paths:
        with open(path, encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                for word in pattern.findall(allowed.sub("", line)):
                    print(f"{path}:{number}: not '{word}'; write: {words[word.lower()]}")
                    status = 1
    return status


def main() -> int:
    if sys.argv[1:2] == ["identifiers"] and len(sys.argv) > 3:
        return check_identifiers(sys.argv[2], sys.argv[3:])
    if sys.argv[1:2] == ["prose"] and len(sys.argv) > 2:
        return check_prose(sys.argv[2:])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
