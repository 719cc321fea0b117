#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks who includes whom, against the lists in the folders' README.md.

Across top-level folders the compiler keeps the rule, as each folder is built
with include/ and itself on the path; here it is told in words. Inside a folder
only this program keeps it. A subfolder in no row is an error too.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Folder -> its subfolders -> which others each may include. "." is the folder
# itself. Every file may also include its own subfolder and include/.
MAY_INCLUDE = {
    "libcoll": {
        "base": set(),
        "plan": {"base"},
        "algo": {"plan"},  # planners are pure: no transport, memory or clock
        "op": {"base"},
        "node": {"base", "algo", "op"},
        "transport": {"base", "node"},
        "bootstrap": {"base"},
        "exec": {"base", "plan", "op", "transport"},
        "comm": {"base", "plan", "algo", "op", "node", "transport",
                 "bootstrap", "exec"},
        # coll_sim's worlds and trials are the library's own
        "programs": {"base", "node", "plan", "algo", "transport", "comm"},
    },
    "trainer": {
        "kernels": {"."},
        "layer": {".", "kernels"},
        "optim": {".", "kernels"},
        "data": {".", "kernels"},
        "net": {".", "kernels", "layer", "optim", "data"},
        "dist": {".", "kernels", "layer", "optim", "data", "net"},
        "bench": {".", "kernels", "layer", "net"},
        ".": {"kernels", "layer", "optim", "data", "net", "dist"},
    },
    "topo": {".": set()},
    "benchmarks": {".": set()},
    "examples": {".": set()},
    "include": {},
}

# Who calls the library.
CALLERS = {"libcoll/bootstrap", "libcoll/comm", "libcoll/programs",
           "trainer/dist", "trainer/bench", "trainer/.", "benchmarks/.",
           "examples/."}

# Public headers with few readers: header -> who may include it.
READERS = {
    "coll/coll.h": CALLERS,
    "coll/communicator.h": CALLERS,
    "coll/explain.h": CALLERS,
    "coll/topo.h": {"libcoll/comm", "libcoll/programs", "topo/.", "trainer/.",
                    "benchmarks/.", "examples/."},
}


def headers_of(text):
    """The project's headers that a file includes: (folder or "", path)."""
    for path in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M):
        yield (path.split("/")[0] if "/" in path else "."), path


def complaint(folder, sub, head, path):
    """What is wrong with an include in folder/sub, or None."""
    rows = MAY_INCLUDE[folder]
    if path.startswith("../") or path.endswith(".c"):
        return "reaches into another file or folder"
    if (ROOT / "include" / path).exists():
        readers = READERS.get(path)
        if readers and folder != "include" and f"{folder}/{sub}" not in readers:
            return "which only " + ", ".join(sorted(readers)) + " may"
        return None
    if folder == "include":
        return "which is not public"
    if head not in rows:
        return f"which is neither in include/ nor in {folder}/"
    if head != sub and head not in rows[sub]:
        may = ", ".join(sorted(rows[sub])) or "nothing else"
        return f"{folder}/{sub} may include {may}"
    return None


def main():
    wrong = files = 0
    for folder, rows in MAY_INCLUDE.items():
        for file in sorted((ROOT / folder).rglob("*.[ch]")):
            parts = file.relative_to(ROOT / folder).parts
            sub = parts[0] if len(parts) > 1 and rows != {} else "."
            files += 1
            if rows and sub not in rows:
                print(f"{file.relative_to(ROOT)}: {folder}/{sub} has no row")
                wrong += 1
                continue
            text = file.read_text(encoding="utf-8")
            for head, path in headers_of(text):
                why = complaint(folder, sub, head, path)
                if why:
                    print(f"{file.relative_to(ROOT)} includes {path}: {why}")
                    wrong += 1
    print(f"{files} files, {wrong} wrong includes")
    return wrong > 0 or files == 0


if __name__ == "__main__":
    sys.exit(main())
