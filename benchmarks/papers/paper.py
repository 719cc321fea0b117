# SPDX-License-Identifier: MIT
"""What the scripts of this folder share: runs, tables, a picture, a budget.

    run = Run(__doc__)                     reads the command line
    for n in run.points((4, 8, 16)):       as many as there is time for
        rows.append((SIMULATED, n, ...))
    run.table(("nodes", ...), rows)        the first cell of a row: its kind
    run.picture(...)
    sys.exit(run.end())                    writes NAME.md and NAME.png
"""
import argparse
import datetime
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
import simulator  # noqa: E402
from compare_peers import cpu_name  # noqa: E402

MEASURED, SIMULATED, COMPUTED = "measured", "simulated", "computed"
# How sure a figure of a paper is.
ABSTRACT = "stated in the abstract"
TEXT = "from the text"
MEMORY = "from memory"
NETLAB = ROOT / "tests" / "netlab" / "netlab"
ENV = {**simulator.ENV, "COLL_STORE": "off"}
MIB = 1 << 20
SKIPPED = 77


class Skip(Exception):
    """There can be no such network here."""


class Run:
    """One script's: its options, what it ran, and what it has to tell."""

    def __init__(self, doc, more=lambda parser: None):
        self.begin = time.monotonic()
        self.name = pathlib.Path(sys.argv[0]).stem
        self.title, _, what = doc.partition("\n\n")
        parser = argparse.ArgumentParser(
            description=doc,
            formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--build", type=pathlib.Path,
                            default=ROOT / "build", metavar="FOLDER",
                            help="that Meson built (default: build)")
        parser.add_argument("--budget", type=float, default=300,
                            metavar="SECONDS",
                            help="begin nothing new after so long; 0: a try, "
                            "the first point of each table (default 300)")
        parser.add_argument("--out", type=pathlib.Path, default=".",
                            metavar="FOLDER",
                            help=f"for {self.name}.md and {self.name}.png "
                            "(default: this one)")
        more(parser)
        self.options = parser.parse_args()
        self.build = self.options.build.resolve()
        if not (self.build / "draw_chart").exists():
            parser.error(f"--build: found {self.options.build}, with no "
                         "draw_chart in it; valid is a folder that Meson "
                         "built")
        if not self.options.out.is_dir():
            parser.error(f"--out: found {self.options.out}, valid is a "
                         "folder")
        self.commands, self.lines = [], [what.strip()]
        self.done, self.left_out = 0, 0
        self.skipped = None
        self.rows = 0

    # --- time ---

    @property
    def smallest(self):
        """Only a try: points may be shorter than they should."""
        return self.options.budget == 0

    def left(self):
        return self.options.budget - (time.monotonic() - self.begin)

    def points(self, every, least=1):
        """The first ones, and the others while there is time."""
        for i, point in enumerate(every):
            if i >= least and self.left() <= 0:
                self.left_out += len(every) - i
                return
            self.done += 1
            yield point

    # --- runs ---

    def _note(self, words):
        """Remembers a command as a user would type it."""
        def short(word):
            for folder, name in ((self.build, "build"), (ROOT, "")):
                if str(word).startswith(str(folder) + "/"):
                    return os.path.join(name, str(pathlib.Path(
                        word).relative_to(folder)))
            return str(word)
        line = shlex.join(short(word) for word in words)
        if line not in self.commands:
            self.commands.append(line)
        print(f"# {time.monotonic() - self.begin:5.0f} s  {line}",
              file=sys.stderr, flush=True)

    def simulate(self, *args):
        """The report of one coll_sim."""
        self._note([self.build / "coll_sim", *args])
        return simulator.simulate(self.build, *args)

    def sim(self, *args):
        """Its results alone."""
        return self.simulate(*args)["results"]

    def execute(self, words, seconds=120, shown=None, **env):
        """What a program prints; ends the script if it fails."""
        words = [str(word) for word in words]
        self._note(shown or words)
        try:
            done = subprocess.run(words, env={**ENV, **env}, text=True,
                                  stdin=subprocess.DEVNULL, cwd=ROOT,
                                  capture_output=True, check=False,
                                  timeout=seconds)
        except subprocess.TimeoutExpired:
            sys.exit(f"{self.name}: not done in {seconds} s: "
                     f"{shlex.join(words)}")
        if done.returncode == SKIPPED:
            raise Skip(done.stderr.strip())
        if done.returncode:
            sys.exit(f"{self.name}: {shlex.join(words)}: status "
                     f"{done.returncode}\n{done.stderr.strip()[-2000:]}")
        return done.stdout

    def ranks(self, nranks, network=None):
        """The words before a program that has so many ranks: on this host, or,
        with netlab's options, a host each. None: these say how many."""
        if network is None:
            return [self.build / "collrun", "-n", nranks]
        hosts = ["--hosts", nranks] if nranks is not None else []
        return [NETLAB, *hosts, *network, "--"]

    def train(self, nranks, *words, network=None, seconds=120, hidden=(),
              **env):
        """coll_train's log: (objects of the steps, the last object). hidden:
        words that a user need not type."""
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log")
            command = [*self.ranks(nranks, network),
                       self.build / "coll_train", *map(str, words)]
            self.execute([*command, *map(str, hidden), "--log", log], seconds,
                         shown=with_env(env, command), **env)
            with open(log, encoding="utf-8") as file:
                *steps, final = [json.loads(line) for line in file]
        return steps, final

    def converge(self, target, most, train):
        """Epochs and seconds of training until a test said the target, or None
        twice, and what the last one said. train(*words, hidden): as train(); an
        epoch at a time, so that it ends there."""
        seconds, last = 0, 0
        with tempfile.TemporaryDirectory() as folder:
            saved = ("--checkpoint", os.path.join(folder, "saved"), "--resume")
            for epoch in range(1, (1 if self.smallest else most) + 1):
                steps, final = train("--epochs", epoch,
                                     hidden=saved if epoch > 1 else saved[:2])
                seconds += sum(spent for _, _, spent in spans(steps, last))
                last = steps[-1]["step"]
                if final["accuracy"] >= target:
                    return epoch, seconds, final["accuracy"]
        return None, None, final["accuracy"]

    # --- what there is to tell ---

    def say(self, text):
        self.lines += ["", text.strip()]

    def table(self, heads, rows):
        """Markdown; the first cell of each row says how it came about."""
        self.rows += len(rows)
        for row in rows:
            if row[0] not in (MEASURED, SIMULATED, COMPUTED):
                raise ValueError(f"a row without its kind: {row}")
        self.lines += ["", "| how | " + " | ".join(heads) + " |",
                       "| --- | --- |" + " ---: |" * (len(heads) - 1)]
        self.lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]

    def picture(self, *charts):
        """As draw_chart.c takes them; each a panel."""
        path = self.options.out / f"{self.name}.png"
        charts[0].setdefault("title", self.title)
        done = subprocess.run([self.build / "draw_chart", path],
                              input=json.dumps(charts), text=True,
                              capture_output=True, check=False)
        if done.returncode:
            sys.exit(f"{self.name}: {done.stderr.strip()}")
        self.lines += ["", f"![{self.title}]({self.name}.png)"]

    def end(self):
        """Writes NAME.md, prints it, and returns the exit status."""
        took = f"It took {time.monotonic() - self.begin:.0f} s"
        if self.left_out:
            self.say(f"{took}: after {self.options.budget:g} s "
                     f"{self.left_out} of {self.done + self.left_out} points "
                     "were left out.")
        else:
            self.say(f"{took} of a budget of {self.options.budget:g} s.")
        if self.skipped:
            self.say(f"Nothing was measured between hosts: {self.skipped}")
        now = datetime.datetime.now(datetime.timezone.utc)
        words = sys.argv[1:]
        head = [f"# {self.title}", "",
                f"Written by `{shlex.join([f'{self.name}.py', *words])}` on "
                f"{now:%Y-%m-%d}, {cpu_name()}, {os.cpu_count()} CPUs.", ""]
        tail = ["", "What was run:", "",
                *(f"    {line}" for line in self.commands)]
        text = "\n".join(head + self.lines + tail) + "\n"
        (self.options.out / f"{self.name}.md").write_text(text,
                                                          encoding="utf-8")
        print(text, end="")
        return SKIPPED if self.skipped and not self.rows else 0


def with_env(env, command):
    """As a user types it."""
    return [*(f"{name}={value}" for name, value in env.items()), *command]


def spans(steps, last=0):
    """(row, the steps it stands for, their seconds): a server's are few."""
    for row in steps:
        n = row["step"] - last
        last = row["step"]
        yield row, n, row["step_ms"] * n / 1e3


def curve(name, points, **more):
    """A series of a picture; points without a value are left out."""
    return {"name": name, "points": sorted(
        [float(x), float(y)] for x, y in points if y is not None), **more}
