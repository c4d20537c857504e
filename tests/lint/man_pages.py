#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""man_pages.py WHAT FILE...: what manual pages, or headers (FILE.h), say, one thing a line.

names       page, and a page for a name of it prototypes  of a synopsis or header, without blanks
old_prototypes  likewise, of what a page says of uDAPL 1.2
calls       functions that call the macros of a synopsis as it says
synopsis    of a page, as source text
references  page, target and section
constants   page, and a word DAT_..., DCNT_..., RPMA_..., COHERDMA_... or IBV_... in it
members     page, and a word in italics that has an underscore
arguments   page, number of parameters, highest DAT_INVALID_ARG
example     the last example                  misplaced   page, and a section that is out of order
"""

import os
import re
import shlex
import sys
from typing import Iterator, List, Tuple

FONTS = re.compile(r"\\f[BIRP]")
MACRO = re.compile(r"\.(B|I|BR|RB|BI|IB|IR|RI) (.*)")
PROTOTYPE = re.compile(
    r"^(?:DAT_RETURN (?=dats?_)|(?:int |const char \*)(?=rpma_))(\w+)\(([^;]*)\);", re.MULTILINE
)
CONSTANT = re.compile(r"\b(?:DAT|DCNT|RPMA|COHERDMA|IBV)_\w+\*?")

ORDER = (
    "NAME; LIBRARY; SYNOPSIS; DESCRIPTION; OPTIONS; EXIT STATUS; RETURN VALUE; ERRORS;"
    " FILES; ENVIRONMENT; ATTRIBUTES; NOTES; EXAMPLES; SEE ALSO"
).split("; ")


def plain(text: str) -> str:
    text = FONTS.sub("", text).replace(r"\-", "-").replace(r"\&", "").replace(r"\e", "\\")
    assert "\\" not in text.replace("\\n", "").replace("\\0", ""), text
    return text


def words_of(line: str) -> List[str]:
    """The arguments of a request, as roff takes them."""
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split, lexer.commenters, lexer.quotes, lexer.escape = True, "", '"', ""
    return list(lexer)


def rendered(line: str) -> str:
    """A line of text, or of one in changing fonts, without them."""
    match = MACRO.match(line)
    if match:
        joint = " " if len(match[1]) == 1 else ""
        return plain(joint.join(words_of(match[2])))
    return "" if line.startswith(".") else plain(line)


def lines_of(path: str) -> List[str]:
    with open(path, encoding="utf-8") as page:
        return page.read().split("\n")


def section(path: str, name: str) -> str:
    lines, inside = [], False
    for line in lines_of(path):
        if line.startswith(".SH "):
            inside = line == f".SH {name}"
        elif inside:
            lines.append(rendered(line))
    return "\n".join(lines)


def names(path: str) -> Iterator[str]:
    page = os.path.basename(path)
    for name in re.split(r",\s*", section(path, "NAME").split(" - ")[0].strip()):
        yield f"{page} {name}.{page.rpartition('.')[2]}"


def declarations(path: str, part: str = "SYNOPSIS") -> List[Tuple[str, str]]:
    """Functions and their parameters. Those of uDAPL 1.2 are in its section, or in the synopsis."""
    if not path.endswith(".h"):
        synopsis, _, old_synopsis = section(path, "SYNOPSIS").partition("#include <dat/udat.h>")
        if part == "UDAPL 1.2":
            return PROTOTYPE.findall(old_synopsis + section(path, part))
        return PROTOTYPE.findall(synopsis)
    with open(path, encoding="utf-8") as header:
        return PROTOTYPE.findall(re.sub(r"/\*.*?\*/", "", header.read(), flags=re.DOTALL))


def old_prototypes(path: str) -> Iterator[str]:
    return prototypes(path, "UDAPL 1.2")


def prototypes(path: str, part: str = "SYNOPSIS") -> Iterator[str]:
    for name, parameters in declarations(path, part):
        yield name + "(" + re.sub(r" *([*,]) *", r"\1", " ".join(parameters.split())) + ")"


def calls(path: str) -> Iterator[str]:
    for name, parameters in declarations(path):
        given = ", ".join(re.findall(r"(\w+)(?:\[\])?(?:,|$)", parameters))
        yield f"#ifdef {name}\nDAT_RETURN call_{name}({parameters});"
        yield f"DAT_RETURN call_{name}({parameters}) {{ return {name}({given}); }}\n#endif"


def synopsis(path: str) -> Iterator[str]:
    yield section(path, "SYNOPSIS")


def references(path: str) -> Iterator[str]:
    for line in lines_of(path):
        match = re.match(r"\.BR ([\w.-]+) \((\d)\)", line)
        if match:
            yield f"{os.path.basename(path)} {match[1]} {match[2]}"


def constants(path: str) -> Iterator[str]:
    for line in lines_of(path):
        if line.startswith(".TH "):  # has the name of the page in capitals
            continue
        for word in CONSTANT.findall(FONTS.sub("", line)):
            yield f"{os.path.basename(path)} {word}"


def members(path: str) -> Iterator[str]:
    for line in lines_of(path):
        match = MACRO.match(line)
        if not match or "I" not in match[1]:
            continue
        words, step = words_of(match[2]), len(match[1])
        parts = words[match[1].index("I") :: step]
        for word in re.findall(r"[a-z]\w*_\w+", plain(" ".join(parts))):
            yield f"{os.path.basename(path)} {word}"


def arguments(path: str) -> Iterator[str]:
    for synopsis, text in ("SYNOPSIS", "RETURN VALUE"), ("UDAPL 1.2", "UDAPL 1.2"):
        counts = [parameters.count(",") + 1 for _, parameters in declarations(path, synopsis)]
        numbers = re.findall(r"DAT_INVALID_ARG(\d+)", section(path, text))
        if counts:
            yield f"{os.path.basename(path)} {max(counts)} {max(map(int, numbers), default=0)}"


def misplaced(path: str) -> Iterator[str]:
    """Sections that are not in ORDER; those of other names are between DESCRIPTION and FILES."""
    page, rank = os.path.basename(path), 0
    for name in [line[4:] for line in lines_of(path) if line.startswith(".SH ")]:
        lowest = ORDER.index(name if name in ORDER else "DESCRIPTION")
        highest = lowest if name in ORDER else ORDER.index("FILES") - 1
        if rank > highest:
            yield f"{page} {name}"
        rank = max(rank, lowest)
    if rank != len(ORDER) - 1:
        yield f"{page} (no {ORDER[-1]})"


def example(path: str) -> Iterator[str]:
    lines = lines_of(path)
    start = len(lines) - lines[::-1].index(".EX")
    yield from (plain(line) for line in lines[start : lines.index(".EE", start)])


def examples(path: str) -> Iterator[str]:
    """All examples of the page, as one source file."""
    is_inside = False
    for line in lines_of(path):
        if line.startswith((".EX", ".EE")):
            is_inside = line.startswith(".EX")
        elif is_inside:
            yield plain(line)


if __name__ == "__main__":
    for file in sys.argv[2:]:
        for line in globals()[sys.argv[1]](file):
            print(line)
