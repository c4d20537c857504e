#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""words.py FILE...: finds words of words.txt.

Text: each line of each file. Names: of files, and tokens outside comments and strings in C, C++ and
Python; in shell and CMake, variables and functions. A member (after '.', '->' or '::') counts where
it is declared: std::vector::at is not declared here.
Exit status: 0 no word found, 1 words found.
"""

import os
import re
import sys
from typing import Iterator, List, Tuple

# The tokens of a language: what may contain no name, and names in a group.
CXX = r"""
    //.* | /\*[\s\S]*?\*/                                 # comments
  | R"(?P<end>[^(\s]*)\([\s\S]*?\)(?P=end)"               # strings
  | "(?:\\[\s\S]|[^"\\\n])*" | '(?:\\.|[^'\\\n])+'
  | ^[ ]*\#[ ]*(?:include|error).*
  | \d[\w'.]*                                             # numbers
  | (?:\.|->|::)\s*\w+                                    # members
  | (?P<name>[A-Za-z_]\w*)
"""
PYTHON = r"""
    \#.* | (?P<quotes>\"{3}|'{3})[\s\S]*?(?P=quotes)
  | "(?:\\[\s\S]|[^"\\\n])*" | '(?:\\[\s\S]|[^'\\\n])*'
  | \b(?:from|in|with)\b | \d\w*                          # keywords, numbers
  | (?<!\bself)\.\s*\w+                                   # members of other objects
  | (?P<name>[A-Za-z_]\w*)
"""
SHELL = r"""
    (?:^|\s)\#.*                                          # comments
  | \$\{?[\#!]?(?P<name>\w+) | (?P<function>\w+)\(\)
  | (?:^|[;({]|\b(?:local|declare|export|readonly|for))[ ]*(?P<assigned>\w+)(?=\+?=|[ ]in\b)
"""
CMAKE = r"\#.* | \$\{(?P<name>\w+) | \b(?:set|function|macro|foreach)\((?P<assigned>\w+)"
# By the file's name or its first lines.
LANGUAGES = [
    (CXX, r"\.[ch](pp)?$", None),
    (PYTHON, r"\.py$", r"#!.*python"),
    (SHELL, r"\.(sh|bash|bats)$", r"#!.*sh\b|.*\n# shellcheck shell="),
    (CMAKE, r"(^|/)CMakeLists\.txt$|\.cmake$", None),
]


def read_list(pattern: str) -> List[Tuple[str, str]]:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "words.txt")
    with open(path, encoding="utf-8") as file:
        return re.findall(f"^{pattern}$", file.read(), re.MULTILINE)


def names_of(path: str, text: str) -> Iterator[Tuple[int, str]]:
    """Each name, with its position."""
    yield 0, os.path.basename(path).split(".")[0]
    for tokens, path_pattern, head_pattern in LANGUAGES:
        if re.search(path_pattern, path) or (head_pattern and re.match(head_pattern, text)):
            for match in re.finditer(tokens, text, re.MULTILINE | re.VERBOSE):
                for group in ("name", "function", "assigned"):
                    if match.groupdict().get(group):
                        yield match.start(group), match[group]
            return


def main() -> int:
    names = dict(read_list("identifier ([^:]+): (.*)"))
    phrases = dict(read_list("prose ([^:]+): (.*)"))
    allowed = re.compile("|".join(re.escape(text) for _, text in read_list("(allow) (.*)")))
    phrase = re.compile(r"\b(%s)\b" % "|".join(map(re.escape, phrases)), re.IGNORECASE)
    status = 0
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
        for position, name in names_of(path, text):
            if name in names:
                line = text.count("\n", 0, position) + 1
                print(f"{path}:{line}: '{name}' is not a name; use {names[name]}")
                status = 1
        for line, content in enumerate(text.split("\n"), 1):
            for words in phrase.findall(allowed.sub("", content)):
                print(f"{path}:{line}: not '{words}'; write: {phrases[words.lower()]}")
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
