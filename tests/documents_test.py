#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Documents say what the programs do.

    tests/documents_test.py PROGRAM...

Each program's man page lies somewhere in the tree as NAME.1. Speaks TAP.
"""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("libcoll", "trainer", "benchmarks", "topo")


def page_of(program):
    for folder in FOLDERS:
        for page in (ROOT / folder).rglob(f"{program.name}.1"):
            return page
    return None


def groff(page, *options):
    """Output and warnings, on lines too long to be broken."""
    done = subprocess.run(["groff", "-mandoc", "-rLL=2000n", "-Tascii",
                           *options, str(page)], capture_output=True,
                          text=True, check=False)
    return done.stdout, done.stderr


def options_in(text):
    """The options in --help: "-n, --ranks N   text" at a line's beginning."""
    found = set()
    for line in text.splitlines():
        row = re.match(r"\s{2,6}(-\w)?(?:, )?\s*(--[\w-]+)?", line)
        found |= {word for word in row.groups() if word} if row else set()
    return found


def page_is_clean(program):
    page = page_of(program)
    if not page:
        return f"there is no {program.name}.1"
    return groff(page, "-ww", "-z")[1]


def page_names_every_option(program):
    page = page_of(program)
    if not page:
        return f"there is no {program.name}.1"
    said = subprocess.run([program, "--help"], capture_output=True, text=True,
                          check=True).stdout
    options = options_in(said)
    written = set(re.findall(r"(?<![\w-])(-\w|--[\w-]+)(?![\w-])",
                             groff(page, "-P-cbou")[0]))
    if not options:
        return "--help shows no option"
    return ", ".join(sorted(options - written))


def help_lists_choices_once(program):
    said = subprocess.run([program, "--help"], capture_output=True, text=True,
                          check=True).stdout
    lists = re.findall(r"one of: [\w ,.-]+", " ".join(said.split()))
    return "\n".join(f"--help repeats: {first}"
                     for first, then in zip(lists, lists[1:])
                     if then.startswith(first))


def readme_shows_the_example(_):
    example = (ROOT / "examples/allreduce.c").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```c\n(.*?)```", readme, re.S)
    return "" if example in blocks else "README.md differs from allreduce.c"


def files_named_in_documents_exist(_):
    """Paths in backticks of README.md and CONTRIBUTING.md that name files."""
    missing = []
    for document in "README.md", "CONTRIBUTING.md":
        text = (ROOT / document).read_text(encoding="utf-8")
        for path in re.findall(r"`((?:%s)/[\w./-]+)`" % "|".join(
                (*FOLDERS, "examples", "tests", "include")), text):
            if "NAME" not in path and "SUBJECT" not in path \
                    and not (ROOT / path).exists():
                missing.append(f"{document}: {path}")
    return "\n".join(missing)


def subjects_of_lines_are_known(_):
    """What COLL_LOG takes, where it is documented, and what lines have."""
    def names(path, what):
        found = re.search(what, (ROOT / path).read_text(encoding="utf-8"), re.S)
        return set(re.findall(r"[a-z]+", found[1]))
    said = set()
    for file in (ROOT / "libcoll").rglob("*.c"):
        said |= set(re.findall(
            r'\b(?:log_line|fail)\(\s*(?:[\w ?:=<]+),\s*"(\w+)",',
            file.read_text(encoding="utf-8")))
    known = names("libcoll/base/log.c", r"known\[\] = \{(.*?)\}")
    read = names("include/coll/log.h", r"one for some:(.*?)\.\n") - {"and"}
    return ("" if said == known == read and len(said) > 5 else
            f"lines have {sorted(said)}, log.c {sorted(known)}, log.h "
            f"{sorted(read)}")


def main():
    claims = [(readme_shows_the_example, None),
              (subjects_of_lines_are_known, None),
              (files_named_in_documents_exist, None)]
    for name in sys.argv[1:]:
        claims += [(page_is_clean, pathlib.Path(name)),
                   (page_names_every_option, pathlib.Path(name)),
                   (help_lists_choices_once, pathlib.Path(name))]
    print(f"1..{len(claims)}")
    failed = 0
    for number, (claim, program) in enumerate(claims, 1):
        words = claim.__name__.replace("_", " ")
        words += f" of {program.name}" if program else ""
        if program and not shutil.which("groff"):
            print(f"ok {number} - {words} # SKIP no groff here (groff-base)")
            continue
        wrong = claim(program)
        failed += bool(wrong)
        print("".join(f"# {line}\n" for line in wrong.splitlines()), end="")
        print(f'{"not ok" if wrong else "ok"} {number} - {words}')
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
