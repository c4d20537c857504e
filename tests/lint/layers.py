#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Shows which folders include which, and fails if one includes a folder above it.

  tests/lint/layers.py udapl/dapl cm ep event memory ia core
  tests/lint/layers.py --dot udapl/dapl cm ep event memory ia core | dot -Tsvg >layers.svg

FOLDER has the files, LAYER are its folders from the top down; the files in FOLDER itself are above
all. Headers named by --interface declare functions of all layers and may be included by each. Exit
status: 0 the layers hold, 1 they do not, 2 invalid arguments.
"""
import argparse
import collections
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"', re.MULTILINE)


def find_includes(folder: pathlib.Path, interface: list[str]) -> dict[tuple[str, str], list[str]]:
    """For each pair of folders, one of which includes the other: the including files."""
    result = collections.defaultdict(list)
    for file in sorted(folder.rglob("*.[ch]pp")):
        for name in INCLUDE.findall(file.read_text(encoding="utf-8")):
            candidates = (file.parent / name, folder.parent / name)
            target = next((path for path in candidates if path.exists()), None)
            if target is None or not target.is_relative_to(folder) or target.name in interface:
                continue
            source_layer = str(file.parent.relative_to(folder))
            target_layer = str(target.parent.relative_to(folder))
            if source_layer != target_layer:
                result[source_layer, target_layer].append(f"{file} includes {name}")
    return result


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dot", action="store_true", help="print a graph for graphviz")
    parser.add_argument("--interface", action="append", default=["api.hpp"], metavar="HEADER")
    parser.add_argument("folder", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("layers", nargs="+", metavar="LAYER")
    options = parser.parse_args()
    layers = [".", *options.layers]
    folders = {path.name for path in options.folder.glob("*") if path.is_dir()}
    if folders != set(options.layers):
        parser.error(f"{options.folder} has the folders {', '.join(sorted(folders))}")
    includes = find_includes(options.folder, options.interface)
    if options.dot:
        print("digraph {")
        for (source, target), files in sorted(includes.items()):
            print(f'  "{source}" -> "{target}" [label="{len(files)}"]')
        print("}")
    else:
        for layer in layers:
            below = [
                f"{target} ({len(files)})"
                for (source, target), files in includes.items()
                if source == layer
            ]
            print(f"{layer:8} includes {', '.join(below) or 'none of the others'}")
    upward = [
        line
        for (source, target), files in includes.items()
        if layers.index(source) > layers.index(target)
        for line in files
    ]
    for line in upward:
        print(f"layers.py: {line}, which is above it", file=sys.stderr)
    return 1 if upward else 0


if __name__ == "__main__":
    sys.exit(main())
