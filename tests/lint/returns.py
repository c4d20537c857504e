#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""returns.py: prints the results of DAT functions that tests expect and the manual page lacks.

The results are those of the tables of tests/unit/dapl/argument_test.cpp and of the conformance cases,
and the types that the sequencer's model permits.
"""

import re
from pathlib import Path
from typing import Dict, Iterator, Set, Tuple

ROOT = Path(__file__).parents[2]
SYSTEM = ROOT / "tests/system/udapl"
Result = Tuple[str, str]  # function, constant

# Of a Provider's functions, which the registry does not pass on to programs.
NOT_FOR_PROGRAMS = re.compile(r"dat_ia_ha_related: .*|dat_ia_open: DAT_INVALID_ARG4")


def constants_of(expression: str) -> Set[str]:
    """The constants of a result, such as invalid_handle(DAT_INVALID_HANDLE_EP)."""
    constants = set(re.findall(r"DAT_[A-Z]\w*", expression))
    constants.update(
        f"DAT_INVALID_ARG{n}" for n in re.findall(r"invalid_parameter\((\d+)\)", expression)
    )
    return constants - {"DAT_NO_SUBTYPE", "DAT_SUCCESS", "DAT_CLASS_ERROR"}


def argument_test() -> Iterator[Result]:
    text = (ROOT / "tests/unit/dapl/argument_test.cpp").read_text(encoding="utf-8")
    aliases = dict(re.findall(r"const DAT_RETURN (\w+) = ([^;]*);", text))
    for function, errors in re.findall(r'\{"(dat_\w+)[^"]*",\s*\{([^{}]*)\},', text):
        for name, value in aliases.items():
            errors = re.sub(rf"\b{name}\b", value, errors)
        for constant in constants_of(errors):
            yield function, constant


def conform() -> Iterator[Result]:
    for path in (SYSTEM / "conform").rglob("*.cpp"):
        text = path.read_text(encoding="utf-8")
        rows = re.findall(r'\{"(dat_\w+)", "[^"]*",\s*((?:\w+\()*[\w, ]*\)?)', text)
        for function, result in rows:
            for constant in constants_of(result):
                yield function, constant
        yield from re.findall(r'\{"(dat_\w+)\.?\w*",\s*\w+,\s*(DAT_INVALID_HANDLE_\w+),', text)


def sequencer() -> Iterator[Result]:
    text = (SYSTEM / "sequencer/rules.hpp").read_text(encoding="utf-8")
    types = dict(re.findall(r"(\w+) = type_bit\((\w+)\)", text))
    for function, legal in re.findall(r'\{"(dat_\w+)[^"]*", ([^}]*)\}', text):
        for name in re.findall(r"\w+", legal):
            if types[name] != "DAT_SUCCESS":
                yield function, types[name]


def pages() -> Dict[str, str]:
    """The text of each function's page, without what precedes the return values."""
    texts = {}
    for path in (ROOT / "man/dat").glob("dat*.3"):
        text = path.read_text(encoding="utf-8")
        names = re.search(r"^\.SH NAME\n(.*?) \\-", text, re.MULTILINE | re.DOTALL)
        assert names, path
        for name in re.split(r",\s*", names[1]):
            texts[name] = text[text.index(".SH RETURN VALUE") :]
    return texts


def is_on_page(constant: str, text: str) -> bool:
    """udapl(7) lists the states of an EP, for which pages have DAT_INVALID_STATE_EP_*."""
    if re.search(rf"\b{constant}\b", text):
        return True
    return constant.startswith("DAT_INVALID_STATE_EP_") and "DAT_INVALID_STATE_EP_*" in text


def main() -> None:
    texts = pages()
    results = set(argument_test()) | set(conform()) | set(sequencer())
    assert len(results) > 350, len(results)
    for function, constant in sorted(results):
        problem = f"{function}: {constant} is not on its manual page"
        if not is_on_page(constant, texts.get(function, "")) and not NOT_FOR_PROGRAMS.match(
            problem
        ):
            print(problem)


if __name__ == "__main__":
    main()
