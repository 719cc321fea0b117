#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What users do to a job: kill it, stop it, feed it nonsense.

What collrun itself does is collrun_test.py's.

    tests/faults_test.py BUILD

Runs the programs of a build folder and speaks TAP. Every case is bounded in
time, and leaves neither a process nor a file behind.
"""
import contextlib
import gzip
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import uuid

sys.dont_write_bytecode = True
import tap  # noqa: E402
from tap import Wrong, case, expect  # noqa: E402

BUILD = pathlib.Path(sys.argv[1]).resolve()
TEMP = None  # a temporary folder, set by main()
BUSY = ["allreduce", "-b", "1M", "-e", "1M", "-n", "100000000"]
QUICK = ["allreduce", "-b", "1K", "-e", "1K", "-n", "5", "-w", "1"]


class Job:
    """A program, its output in files, and every process it starts.

    The processes are found by a mark in their environment."""

    def __init__(self, *command, **settings):
        self.mark = "FAULTS_TEST=" + uuid.uuid4().hex
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("COLL_")}
        env.update([self.mark.split("=")], HOME=str(TEMP),
                   **{k: str(v) for k, v in settings.items()})
        command = [str(BUILD / command[0]), *map(str, command[1:])]
        self.files = [tempfile.TemporaryFile("w+", dir=TEMP) for _ in "oe"]
        self.process = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=self.files[0],
            stderr=self.files[1], start_new_session=True)

    def pids(self, *also):
        """Living processes with the mark and these words in their
        environment, collrun itself not among them if a word is given."""
        want = {w.encode() for w in (self.mark, *also)}
        found = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if want <= set((folder / "environ").read_bytes().split(b"\0")):
                    state = (folder / "stat").read_text().rsplit(")", 1)[1]
                    if state.split()[0] not in "ZX":
                        found.append(int(folder.name))
        return found

    def rank(self, r, seconds=60):
        """The process of rank r, once it has worked for a while: joining
        takes next to no time of the CPU, and waiting within a call does."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for pid in self.pids(f"COLL_RANK={r}"):
                with contextlib.suppress(OSError):
                    stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
                    ticks = sum(map(int, stat.rsplit(")", 1)[1].split()[11:13]))
                    if ticks > 0.4 * os.sysconf("SC_CLK_TCK"):
                        return pid
            expect(self.process.poll() is None, "ended early:", self.errors())
            time.sleep(0.05)
        raise Wrong(f"rank {r} does not work after {seconds} s")

    def errors(self):
        self.files[1].seek(0)
        return self.files[1].read()

    def output(self):
        self.files[0].seek(0)
        return self.files[0].read()

    def end(self, seconds):
        """The exit status; not to end in time is an error."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Wrong(f"still runs after {seconds} s: {self.errors()}")

    def gone(self):
        """Nothing of the job is left, give it a moment to be reaped."""
        end = time.monotonic() + 10
        while self.pids() and time.monotonic() < end:
            time.sleep(0.05)
        expect(not self.pids(), "processes are left:", self.pids())

    def kill(self):
        for pid in self.pids():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self.process.poll() is None and self.process.kill()
        self.process.wait()


def shared_memory():
    folder = pathlib.Path("/dev/shm")
    return {f.name for f in folder.glob("*") if f.name[:4] in ("coll", "ucx_")}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def within(seconds, attempt):
    """attempt() says in how many seconds its event came: of three the fastest
    counts, as other work on the machine takes time too."""
    took = [attempt()]
    while min(took) > seconds and len(took) < 3:
        took.append(attempt())
    expect(min(took) <= seconds, "took", took, "seconds, not", seconds)


@contextlib.contextmanager
def jobs():
    """start(...) makes a Job; all of them end with the block."""
    started = []

    def start(*command, **settings):
        started.append(Job(*command, **settings))
        return started[-1]

    try:
        yield start
    finally:
        for job in started:
            job.kill()


def by_environment(start, n, arguments, **settings):
    """n ranks of coll_bench that no collrun looks after."""
    root = f"127.0.0.1:{free_port()}"
    return [start("coll_bench", *arguments, COLL_RANK=r, COLL_NRANKS=n,
                  COLL_ROOT=root, COLL_JOB_KEY="0123456789abcdef", **settings)
            for r in range(n)]


def refused(*command, says=(), **settings):
    """Bad input: status 2, one line that names the program and says all."""
    with jobs() as start:
        job = start(*command, **settings)
        status, lines = job.end(60), job.errors().strip().splitlines()
        expect(status == 2, "status", status, "instead of 2:", lines)
        expect(len(lines) == 1, len(lines), "lines:", lines)
        expect(re.match(command[0] + "( [a-z]+)?: ", lines[0]), lines[0])
        for word in says:
            expect(word in lines[0], f'no "{word}" in:', lines[0])


@case
def a_killed_rank_ends_the_job_within_5_seconds():
    def attempt():
        with jobs() as start:
            job = start("collrun", "-n", 3, BUILD / "coll_bench", *BUSY)
            os.kill(job.rank(1), signal.SIGKILL)
            begin = time.monotonic()
            status = job.end(30)
            took = time.monotonic() - begin
            expect(status != 0, "status 0")
            expect("rank 1" in job.errors(), "no rank 1 in:", job.errors())
            job.gone()
            return took

    before = shared_memory()
    within(5, attempt)
    expect(not shared_memory() - before, shared_memory() - before)


@case
def a_rank_that_never_comes_is_named():
    with jobs() as start:
        begin = time.monotonic()
        job = start("coll_bench", *QUICK, COLL_RANK=0, COLL_NRANKS=2,
                    COLL_ROOT=f"127.0.0.1:{free_port()}", COLL_JOB_KEY="k" * 16,
                    COLL_JOIN_SECONDS=1)
        expect(job.end(30) == 1, "status", job.process.returncode)
        expect(time.monotonic() - begin < 15, "took too long")
        expect("rank 1" in job.errors(), job.errors())


def killed(n, victim, **settings):
    """Kills one of n ranks while all work; seconds until the others, which name
    it, have ended."""
    with jobs() as start:
        ranks = by_environment(start, n, BUSY, **settings)
        for r, job in enumerate(ranks):
            job.rank(r)
        os.kill(ranks[victim].rank(victim), signal.SIGKILL)
        begin = time.monotonic()
        for r in set(range(n)) - {victim}:
            expect(ranks[r].end(30) == 1, settings, "status",
                   ranks[r].process.returncode, ranks[r].errors())
            expect(f"rank {victim}" in ranks[r].errors(), settings,
                   ranks[r].errors())
        return time.monotonic() - begin


@case
def without_collrun_a_killed_rank_is_named_within_2_seconds():
    for transport in "shm", "ucx":
        within(2, lambda: killed(2, 1, COLL_TRANSPORT=transport))


@case
def the_death_of_rank_0_is_named_too():
    within(2, lambda: killed(3, 0))


@case
def a_stopped_rank_ends_in_a_timeout():
    with jobs() as start:
        ranks = by_environment(start, 2, BUSY, COLL_OP_SECONDS=2)
        ranks[0].rank(0)
        os.kill(ranks[1].rank(1), signal.SIGSTOP)
        expect(ranks[0].end(30) == 1, "status", ranks[0].process.returncode)
        expect("rank 1" in ranks[0].errors(), ranks[0].errors())


@case
def torchrun_s_names_work():
    with jobs() as start:
        port = free_port()
        ranks = [start("coll_bench", *QUICK, "-c", RANK=r, WORLD_SIZE=2,
                       MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
                 for r in range(2)]
        for rank in ranks:
            expect(rank.end(60) == 0, rank.errors())


@case
def a_half_set_environment_is_an_error():
    cases = {"COLL_NRANKS": {"COLL_RANK": 0},
             "COLL_RANK": {"COLL_NRANKS": 2},
             "COLL_ROOT": {"COLL_RANK": 0, "COLL_NRANKS": 2},
             "MASTER_PORT": {"RANK": 0, "WORLD_SIZE": 2,
                             "MASTER_ADDR": "127.0.0.1"}}
    for missing, settings in cases.items():
        with jobs() as start:
            job = start("coll_bench", *QUICK, **settings)
            expect(job.end(30) != 0, "status 0 without", missing)
            expect(missing in job.errors(), missing, "not in", job.errors())


@case
def ranks_outside_the_job_are_an_error():
    for rank, nranks in (2, 2), (-1, 2), ("x", 2), (0, 0), (0, -3):
        with jobs() as start:
            job = start("coll_bench", *QUICK, COLL_RANK=rank,
                        COLL_NRANKS=nranks, COLL_ROOT="127.0.0.1:1",
                        COLL_JOB_KEY="k" * 16, COLL_JOIN_SECONDS=1)
            expect(job.end(30) != 0, "status 0 as rank", rank, "of", nranks)
            expect(len(job.errors().splitlines()) == 1, job.errors())


@case
def an_unknown_setting_is_warned_about():
    with jobs() as start:
        job = start("coll_bench", *QUICK, COLL_TRANSPROT="shm")
        expect(job.end(60) == 0, job.errors())
        expect("COLL_TRANSPROT" in job.errors(), job.errors())
        expect("COLL_TRANSPORT" in job.errors(), job.errors())


@case
def nonsense_in_a_setting_is_an_error_that_says_what_is_valid():
    cases = [("COLL_ALGO", "nonsense", "ring"),
             ("COLL_ALGO", "allreduce:rign", "ring"),
             ("COLL_ALGO", "allreduce:4k-0:ring", "4k"),
             ("COLL_TRANSPORT", "foo", "shm"),
             ("COLL_JOIN_SECONDS", "soon", "number"),
             ("COLL_OP_SECONDS", "-1", "number")]
    for name, value, valid in cases:
        with jobs() as start:
            job = start("collrun", "-n", 2, BUILD / "coll_bench", *QUICK,
                        **{name: value})
            expect(job.end(30) != 0, f"{name}={value}: status 0")
            for word in name, value.split(":")[-1], valid:
                expect(word in job.errors(), f"{name}={value}: no {word} in",
                       job.errors())


@case
def nonsense_on_the_command_line_has_one_line_of_answer():
    refused("coll_bench", "allredcue", says=["allreduce"])
    refused("coll_bench", "allreduce", "-d", "f23", says=["f23", "f32"])
    refused("coll_bench", "allreduce", "-o", "mean", says=["mean", "sum"])
    refused("coll_bench", "allreduce", "-b", "much", says=["much"])
    refused("coll_bench", "allreduce", "--algo", "rign", says=["ring"])
    refused("coll_bench", "allreduce", "--jsn", "x", says=["--json"])
    refused("coll_info", "--setings", says=["--settings"])
    refused("coll_train", "--net", "lenett", says=["lenett", "lenet"])
    refused("coll_train", "--strategy", "snyc", says=["sync"])


def write_idx(folder, images, rows=28, columns=28):
    """A small MNIST in folder; `images` changes each file's bytes."""
    folder.mkdir(exist_ok=True)
    for name, n in ("train", 200), ("t10k", 100):
        pixels = struct.pack(">iiii", 0x803, n, rows, columns)
        pixels += bytes(i % 251 for i in range(n * rows * columns))
        labels = struct.pack(">ii", 0x801, n) + bytes(i % 10 for i in range(n))
        for kind, data in ("images-idx3", pixels), ("labels-idx1", labels):
            data = images(kind, data)
            (folder / f"{name}-{kind}-ubyte.gz").write_bytes(gzip.compress(data))
    return folder


TRAIN = ["--net", "lenet", "--epochs", "1", "--batch", "10"]


@case
def a_damaged_dataset_is_refused_by_file():
    broken = {
        "truncated": lambda k, d: d[:len(d) // 2] if k[0] == "i" else d,
        "foreign": lambda k, d: b"\0" * 4 + d[4:] if k[0] == "i" else d,
        "short": lambda k, d: d[:6] if k[0] == "l" else d,
        "labels": lambda k, d: d[:-1] + b"\xc8" if k[0] == "l" else d,
        "huge": lambda k, d: d[:4] + b"\x7f\xff\xff\xff" + d[8:],
    }
    for name, change in broken.items():
        folder = write_idx(TEMP / name, change)
        refused("coll_train", *TRAIN, "--data", f"mnist:{folder}",
                says=["ubyte"])
    whole = write_idx(TEMP / "gz", lambda k, d: d)
    for file in whole.glob("*images*"):
        file.write_bytes(file.read_bytes()[:-100])
    refused("coll_train", *TRAIN, "--data", f"mnist:{whole}", says=["images"])
    refused("coll_train", *TRAIN, "--data", f"mnist:{TEMP}/none",
            says=[f"{TEMP}/none"])


@case
def a_damaged_checkpoint_is_refused_by_name():
    folder = write_idx(TEMP / "good", lambda k, d: d)
    good = TEMP / "good.ckpt"
    with jobs() as start:
        job = start("coll_train", *TRAIN, "--data", f"mnist:{folder}",
                    "--checkpoint", good)
        expect(job.end(60) == 0, job.errors())
    data = good.read_bytes()
    middle = len(data) // 2
    flipped = bytes([data[middle] ^ 1])
    broken = {"short": data[:-1], "half": data[:middle], "head": data[:7],
              "empty": b"", "foreign": b"x" * len(data),
              "flipped": data[:middle] + flipped + data[middle + 1:],
              "long": data + b"\0"}
    for name, change in broken.items():
        bad = TEMP / f"{name}.ckpt"
        bad.write_bytes(change)
        refused("coll_train", "eval", "--checkpoint", bad, "--data",
                f"mnist:{folder}", says=[bad.name])


@case
def a_damaged_cluster_is_refused_where_it_is_wrong():
    for text in ("node:4 (3us", "node:4 (3 parsecs 1GB/s) machine:1",
                 "node:x (1us 1GB/s)", "(", "node:-1 (1us 1GB/s)",
                 "node:99999999999 (1us 1GB/s) core:99999999999"):
        refused("coll_info", "--cluster", text)
    refused("coll_info", "--cluster", "machine:sw26011", says=["sw26010"])


@case
def more_ranks_than_cores_and_one_rank_alone_work():
    for n in 1, 2 * os.cpu_count() + 1:
        with jobs() as start:
            job = start("collrun", "-n", n, BUILD / "coll_bench", *QUICK, "-c")
            expect(job.end(60) == 0, n, "ranks:", job.errors())
            job.gone()


def main():
    global TEMP
    with tempfile.TemporaryDirectory() as folder:
        TEMP = pathlib.Path(folder)
        return tap.run()


if __name__ == "__main__":
    sys.exit(main())
