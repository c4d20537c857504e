#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What our plugin costs, beside the stock provider; in the lab, where a soft device is.

softrdma run --driver rxe -- tests/bench/costs.py [calls|race] [--driver NAME] [--json]
      [--providers NAME...]

calls: instructions in user space by callgrind, and system calls by strace, of each request.
race: threads post to one queue pair, the providers by turns: a time, so it says little alone.
$BUILD is the build folder, as for the tests. Exit status 77: something that it needs is missing.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Any
from pathlib import Path

BUILD = Path(os.environ.get("BUILD", "build/release"))
POSTS = BUILD / "tests/bench/posts"
PLUGIN = BUILD / "provider/libcoherdma"

# By provider; the last is ours with a promise of one thread at a time, if it can.
PROVIDERS = {"stock": None, "coherdma": PLUGIN, "alone": PLUGIN}


def run(provider: str, *command: str) -> subprocess.CompletedProcess[str]:
    """Runs the command over that provider; exits if libibverbs does not load our plugin for it."""
    environment = {k: v for k, v in os.environ.items() if k != "RDMAV_DRIVERS"}
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as log:
        if PROVIDERS[provider]:
            environment |= {"RDMAV_DRIVERS": str(PROVIDERS[provider])}
            environment |= {"VERBS_LOG_LEVEL": "3", "VERBS_LOG_FILE": log.name}
        done = run_with_retries(command, environment)
        if PROVIDERS[provider] and "is served by coherdma" not in log.read():
            sys.exit("costs.py: our plugin does not serve this device")
    return done


def run_with_retries(
    command: tuple[str, ...], environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Again with longer pauses if the machine was too slow for completions to arrive in them."""
    for pause in (10, 10, 10, 20, 40, 80, 160, 320):  # in ms
        environment = {**environment, "COUNT_PAUSE": str(pause)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 75:
            break
    if done.returncode not in (0, 77):
        sys.exit(f"{command[0]}: exit status {done.returncode}\n{done.stderr}")
    return done


def posts_command(provider: str, address: str) -> list[str]:
    return [str(POSTS), "count", address] + (["alone"] if provider == "alone" else [])


def parse_accounts(output: str) -> list[tuple[str, int]]:
    """Lines "CALLS REQUESTS_OF_A_CALL NAME" of a program: each name, with its number of requests."""
    matches = re.findall(r"^(\d+) (\d+) (.+)$", output, re.MULTILINE)
    return [(name, int(calls) * int(batch_size)) for calls, batch_size, name in matches]


def count_instructions(provider: str, address: str) -> dict[str, float]:
    """Instructions for one request, of each kind of call; empty if the provider cannot."""
    with tempfile.TemporaryDirectory() as folder:
        done = run(
            provider,
            *["valgrind", "--tool=callgrind", "--collect-atstart=no"],
            f"--callgrind-out-file={folder}/part",
            *posts_command(provider, address),
        )
        result = {}
        for number, (name, requests) in enumerate(parse_accounts(done.stdout), 1):
            part = Path(f"{folder}/part.{number}").read_text(encoding="utf-8")
            assert f"Client Request: {name}\n" in part
            total = re.search(r"^totals: (\d+)", part, re.MULTILINE)
            result[name] = (int(total[1]) if total else 0) / requests
        return result


def count_system_calls(provider: str, address: str) -> dict[str, float]:
    """System calls for one request, of each kind of call: those that strace shows between the marks
    "begin" and "end" of counted.hpp, behind "account NAME"."""
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as log:
        done = run(
            provider, "strace", "-s", "99", "-o", log.name, *posts_command(provider, address)
        )
        total = dict.fromkeys((name for name, _ in parse_accounts(done.stdout)), 0)
        name, is_counting = "", False
        for line in log:
            marked = re.match(r'write\(-1, "(account |begin|end)(.*)", ', line)
            if not marked:
                total[name] = total.get(name, 0) + is_counting
            elif marked[1] == "account ":
                name = marked[2]
            else:
                is_counting = marked[1] == "begin"
        return {name: total[name] / requests for name, requests in parse_accounts(done.stdout)}


def measure_calls(address: str, providers: list[str]) -> list[dict[str, Any]]:
    """For each kind of call its instructions and system calls, by provider."""
    # In a guest of user mode a tracer spins while its tracee stops on another processor.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    instructions = {p: count_instructions(p, address) for p in providers}
    system_calls = {p: count_system_calls(p, address) for p in providers}
    return [
        {
            "call": name,
            "instructions": {p: instructions[p].get(name) for p in providers},
            "system calls": {p: system_calls[p].get(name) for p in providers},
        }
        for name in instructions["stock"]
    ]


def print_calls(rows: list[dict[str, Any]]) -> None:
    def format_number(value: float | None, digits: int) -> str:
        return "-" if value is None else f"{value:.{digits}f}"

    print("for one request              instructions                 system calls")
    print("                             stock coherdma ratio  alone   stock coherdma alone")
    for row in rows:
        counts, calls = row["instructions"], row["system calls"]
        print(
            f"{row['call']:28}{format_number(counts['stock'], 1):>6}"
            f"{format_number(counts['coherdma'], 1):>9}{counts['coherdma'] / counts['stock']:6.2f}"
            f"{format_number(counts.get('alone'), 1):>7}  "
            + "".join(f"{format_number(calls.get(p), 2):>{len(p) + 1}}" for p in PROVIDERS)
        )


def measure_race(address: str, threads: int, seconds: float, num_rounds: int) -> dict[str, Any]:
    """Runs the stock provider and ours by turns; which is first alternates. Ratios are of one round."""
    import statistics  # long to load in a guest, where each page of it is a fault

    rates: dict[str, list[int]] = {"stock": [], "coherdma": []}
    stalls = dict.fromkeys(rates, 0)
    for round_index in range(num_rounds):
        for provider in sorted(rates, reverse=round_index % 2 == 0):
            out = run(provider, str(POSTS), "race", address, str(threads), str(seconds)).stdout
            rates[provider].append(int(out.split()[0]))
            stalls[provider] += "none in the last" in out
    ratios = [
        rate / max(stock_rate, 1) for stock_rate, rate in zip(rates["stock"], rates["coherdma"])
    ]
    return {
        "threads": threads,
        "writes per second": {p: statistics.median(v) for p, v in rates.items()},
        "runs that stalled": stalls,
        "rounds": num_rounds,
        "ratio": statistics.median(ratios),
        "ratios": sorted(ratios),
    }


def print_race(result: dict[str, Any]) -> None:
    rate, stalls = result["writes per second"], result["runs that stalled"]
    print(
        f"{result['threads']} threads: stock {rate['stock']:.0f}, coherdma {rate['coherdma']:.0f} "
        f"writes a second (medians); ratio {result['ratio']:.2f}, from {result['ratios'][0]:.2f} to "
        f"{result['ratios'][-1]:.2f} in {result['rounds']} rounds; stalled: stock "
        f"{stalls['stock']}, coherdma {stalls['coherdma']}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", nargs="?", choices=["calls", "race"], default="calls")
    parser.add_argument("--driver", default="rxe", choices=["rxe", "siw"])
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--providers", nargs="+", choices=PROVIDERS, default=list(PROVIDERS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    address = os.environ.get(f"SOFTRDMA_{options.driver.upper()}_ADDRESS")
    needs = {"a device: run it by softrdma run": address, f"{POSTS}": POSTS.exists()}
    needs |= {tool: shutil.which(tool) for tool in ("valgrind", "strace")}
    for need, is_met in needs.items():
        if not is_met:
            print(f"costs.py: it needs {need}", file=sys.stderr)
            return 77
    assert address
    if options.what == "race":
        result: dict[str, Any] | list[dict[str, Any]] = measure_race(
            address, options.threads, options.seconds, options.rounds
        )
        show = print_race
    else:
        result = measure_calls(address, options.providers)
        show = print_calls  # type: ignore[assignment]
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        show(result)  # type: ignore[arg-type]
    return 0


if __name__ == "__main__":
    sys.exit(main())
