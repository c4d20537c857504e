#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Prints docs/faults-programs.md of what tried_programs.py --json has written.

    write_programs_page.py JSON...
"""

import json
import sys
from collections import Counter
from typing import Any, Dict, Iterator, List, Set, Tuple

from tried_programs import BAD_OUTCOMES, Explanation, read_explanations

BEGIN = """# Programs whose calls fail

Programs of other projects, in which each call fails once: `coherdma fault
--fail-each` ([faults.md](faults.md)), with rdma-core's provider where no other
is named. The other side has no faults. Crashes, hangs and wrong reactions are
explained below, with the lines of the program's source.

This page is made by a test, which fails for a crash or hang that it does not
explain:

```
lab='scripts/softrdma run --write .' programs=tests/system/faults/tried_programs.py
$lab --driver rxe -- $programs rxe --json rxe.json
$lab --driver rxe -- $programs rxe --errors EAGAIN,EINTR --json errors.json
$lab --driver siw -- $programs siw --json siw.json
$lab --driver rxe -- $programs rxe --ours --json ours.json
tests/system/faults/write_programs_page.py *.json >docs/faults-programs.md
```

One program, by hand; `sides.py` has the command lines of all:

```
rping -s -P &
coherdma fault --fail-each --limit 8 -- rping -c -a $ADDRESS -C 3
```

"""

# How often a program polls depends on time: the poll of a number may be at another place the next time.
TIMED_CALL = "ibv_poll_cq"
OUTCOMES = ("fails", "goes on", "hangs", "crashes")

# Program, objects, source, reason.
LEFT_WITHOUT_FAULT = (
    (
        "`fio`",
        "the CQ, its completion channel, the MRs, the PD",
        "engines/rdma.c:1010-1021",
        "the CQ is destroyed before its QP, and the MRs never",
    ),
    (
        "`qperf -cm1`",
        "the PD, an ID of rdma_cm and its event channel",
        "src/rdma.c:1610, 1815",
        "the PD is freed before its MR (rdma.c:1614); cm_open_client() calls cm_init() a second time",
    ),
)

Document = Dict[str, Any]


def title(document: Document) -> str:
    provider = ", coherdma's provider" if document["provider"] == "coherdma" else ""
    errors = document.get("errors", "").replace(",", " and ")
    return f"{document['driver']}{provider}{', ' + errors if errors else ''}"


def trials(document: Document) -> Iterator[Tuple[str, Dict[str, Any]]]:
    for program in document["programs"]:
        for trial in program["calls"]:
            yield program["name"], trial


def counts(outcomes: Counter) -> str:  # type: ignore[type-arg]
    if not outcomes:
        return ""
    return " / ".join(str(outcomes[outcome]) for outcome in OUTCOMES)


def print_table(header: List[str], rows: List[List[str]]) -> None:
    print(f"| {' | '.join(header)} |")
    print(f"|{'---|' * len(header)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print()


def print_programs(documents: List[Document]) -> None:
    packages: Dict[str, str] = {}
    names: Dict[str, str] = {}  # and their packages
    for document in documents:
        packages.update(document["packages"])
        names.update({each["name"]: each["package"] for each in document["programs"]})
    print("## By program\n")
    print("The side with the faults is named. How many runs end in which way: *fails /")
    print("goes on / hangs / crashes*. *Hangs*: did not end in 8 s. An empty cell: not run.\n")
    rows = []
    for name, package in names.items():
        cells = [
            counts(
                Counter(trial["outcome"] for program, trial in trials(document) if program == name)
            )
            for document in documents
        ]
        rows.append([f"{package} {packages[package]}", f"`{name}`", *cells])
    print_table(["package", "program", *map(title, documents)], rows)


def print_calls(documents: List[Document]) -> None:
    by_call: Dict[str, Dict[str, Counter]] = {}  # type: ignore[type-arg]
    usual: Dict[str, str] = {}
    errors: Set[str] = set()
    for document in documents:
        for _, trial in trials(document):
            error = trial["error"]
            if document.get("errors"):
                errors.add(error)
            else:
                usual[trial["call"]], error = error, ""
            of_call = by_call.setdefault(trial["call"], {})
            of_call.setdefault(error, Counter())[trial["outcome"]] += 1
    print("## By call and error\n")
    print("Of all programs, drivers and providers. *Usual*: the error that `--fail-each`")
    print("takes if none is named. One call may be many places of a program.\n")
    columns = sorted(errors)
    rows = [
        [
            f"`{call}`",
            f"{counts(by_error.get('', Counter()))} ({usual.get(call, '')})",
            *(counts(by_error.get(error, Counter())) for error in columns),
        ]
        for call, by_error in sorted(by_call.items())
    ]
    print_table(["call", "usual", *columns], rows)


def print_explanations(known: List[Explanation]) -> None:
    print("## What is wrong\n")
    print("*Leaves*: objects that a path of errors forgets. The kernel frees them when the")
    print("process exits.\n")
    print("Not listed is what is right. librdmacm finds out what the kernel supports by a")
    print("first `rdma_create_id`, `rdma_bind_addr` and `rdma_destroy_id` (cma.c:244), and")
    print("does without the link layer (`ibv_query_port`, cma.c:456); so do the queries of")
    print("`fi_getinfo`. A call that destroys, and fails, leaves its object and those which")
    print("that uses; most programs do not look at the result.\n")
    rows = [
        [
            f"`{each.program.replace('(client|server)', 'client and server').replace('.*', '')}`",
            ", ".join(f"`{call}`" for call in each.call.split())
            + (f": {each.errors}" if each.errors else ""),
            each.outcome,
            each.source,
            each.explanation,
        ]
        for each in known
    ]
    print_table(["program", "call that fails", "outcome", "source", "why"], rows)


def bad_outcomes(document: Document) -> Dict[Tuple[str, str], Set[str]]:
    """Of each call of each program: whether it has crashed or hung."""
    bad: Dict[Tuple[str, str], Set[str]] = {}
    for name, trial in trials(document):
        outcomes = bad.setdefault((name, trial["call"]), set())
        if trial["outcome"] in BAD_OUTCOMES:
            outcomes.add(trial["outcome"])
    return bad


def is_same_with_both_providers(documents: List[Document]) -> bool:
    """Whether what was tried with both crashes or hangs with both."""
    by_run: Dict[Tuple[str, str, Tuple[str, str]], Set[str]] = {}
    for document in documents:
        for key, outcomes in bad_outcomes(document).items():
            run = (document["driver"], document.get("errors", ""), key)
            if key[1] == TIMED_CALL:
                continue
            if by_run.setdefault(run, outcomes) != outcomes:
                return False
    return True


def print_differences(documents: List[Document]) -> None:
    print("## Where it depends on the device or the error\n")
    bad_by_document = [bad_outcomes(document) for document in documents]
    rows = []
    for name, call in sorted({key for bad in bad_by_document for key in bad}):
        cells = [bad.get((name, call)) for bad in bad_by_document]
        if len({frozenset(cell) for cell in cells if cell is not None}) > 1:
            words = ["" if cell is None else ", ".join(sorted(cell)) or "neither" for cell in cells]
            rows.append([f"`{name}`", f"`{call}`", *words])
    if rows:
        same = "the same" if is_same_with_both_providers(documents) else "not the same"
        print("Calls that crash or hang in some of the runs only. iWARP disconnects without an")
        print("answer of the peer's program, for which InfiniBand's protocol, on rxe, waits.")
        print(f"With rdma-core's provider and with coherdma's they are {same}, but for")
        print(f"`{TIMED_CALL}`: how often a program polls depends on time.\n")
        print_table(["program", "call", *map(title, documents)], rows)
    else:
        print("Nowhere: what crashes or hangs does so with each.\n")


def print_left_without_fault() -> None:
    print("## Left without a fault\n")
    print("What a program leaves also when no call fails is not in the report. Two leave")
    print("objects each time: the kernel refuses to free an object that another one uses,")
    print("and they do not look at the result.\n")
    print_table(["program", "what is left", "source", "why"], [list(r) for r in LEFT_WITHOUT_FAULT])


def main() -> int:
    documents = []
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            documents.append(json.load(file))
    documents.sort(key=lambda each: (each["driver"], each["provider"] != "rdma-core", title(each)))
    print(BEGIN, end="")
    print_programs(documents)
    print_calls(documents)
    print_explanations(read_explanations())
    print_differences(documents)
    print_left_without_fault()
    return 0


if __name__ == "__main__":
    sys.exit(main())
