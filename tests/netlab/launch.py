# SPDX-License-Identifier: MIT
"""Starts parallel programs on the hosts of a Lab: libcoll's ranks, Gloo's, and
MPI jobs with the MPI's own launcher."""
import os
import secrets
import signal
import subprocess
import tempfile
import threading
import time

import lab as netlab

MPI_UCX = {'UCX_TLS': 'tcp,self,posix,sysv', 'UCX_NET_DEVICES': 'eth0'}


class Rank:
    """A process, the host it is on, and what came of it."""

    def __init__(self, number, host, command, streams):
        self.number, self.host = number, host
        self.begin = time.monotonic()
        self.seconds = None
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, text=True,
            errors='replace', **streams)

    def over(self):
        """Whether it has ended."""
        if self.seconds is None and self.process.poll() is not None:
            self.seconds = time.monotonic() - self.begin
        return self.seconds is not None

    @property
    def status(self):
        """As a shell has it."""
        code = self.process.returncode
        return code if code is None or code >= 0 else 128 - code

    def report(self):
        return {'rank': self.number, 'host': self.host, 'status': self.status,
                'seconds': self.seconds}


def environment(lab, **more):
    """Of a libcoll job, without its ranks. Hosts have the same names in every
    lab, so what was learned in another is not to be believed."""
    env = {'COLL_NRANKS': str(lab.layout.nranks), 'COLL_ROOT': lab.root(),
           'COLL_JOB_KEY': secrets.token_hex(16), 'COLL_STORE': 'off'}
    env.update(more)
    return env


def start(lab, program, env, streams):
    """One process a rank. program: words, or a function of the rank that
    returns them. streams: a function of the rank that returns Popen's stdout
    and stderr."""
    ranks = []
    for r in range(lab.layout.nranks):
        h = lab.layout.host_of(r)
        words = program(r) if callable(program) else program
        settings = [f'{k}={v}' for k, v in {**env, 'COLL_RANK': r}.items()]
        ranks.append(Rank(r, h, [*lab.enter(h), *settings, *words],
                          streams(r)))
    return ranks


def wait(ranks, deadline):
    """Until all have ended or the deadline, then those left are killed. True:
    all ended by themselves."""
    while not all([rank.over() for rank in ranks]):
        if time.monotonic() > deadline:
            for rank in ranks:
                if not rank.over():
                    rank.process.send_signal(signal.SIGKILL)
                    rank.process.wait()
                    rank.over()
            return False
        time.sleep(0.01)
    return True


def gloo(lab, program):
    """What start() takes for a Gloo program, which is called with rank, number
    of ranks and the folder where they meet before its own arguments."""
    store = tempfile.mkdtemp(dir=netlab.FILES)
    return lambda r: [program[0], str(r), str(lab.layout.nranks), store,
                      *program[1:]]


def run(lab, program, seconds, **more):
    """A libcoll job whose output is kept: the ranks, standard output of each,
    standard error of each, and whether it ended in time."""
    files = [[tempfile.TemporaryFile('w+', dir=netlab.FILES, errors='replace')
              for _ in range(lab.layout.nranks)] for _ in 'oe']
    ranks = start(lab, program, environment(lab, **more),
                  lambda r: {'stdout': files[0][r], 'stderr': files[1][r]})
    ended = wait(ranks, time.monotonic() + seconds)
    texts = []
    for kind in files:
        texts.append([])
        for file in kind:
            file.seek(0)
            texts[-1].append(file.read())
            file.close()
    return ranks, texts[0], texts[1], ended


def labelled(lab, program, env, out, err, seconds):
    """As run(), but every line of output goes to out or err with [rank] before
    it. Returns ranks and whether they ended in time."""
    lock = threading.Lock()
    pumps = []

    def pump(stream, to, rank):
        for line in stream:
            with lock:
                to.write(f'[{rank}] {line}')
                to.flush()

    ranks = start(lab, program, env, lambda r: {'stdout': subprocess.PIPE,
                                                'stderr': subprocess.PIPE})
    for rank in ranks:
        for stream, to in ((rank.process.stdout, out),
                           (rank.process.stderr, err)):
            pumps.append(threading.Thread(
                target=pump, args=(stream, to, rank.number), daemon=True))
            pumps[-1].start()
    ended = wait(ranks, time.monotonic() + seconds)
    for thread in pumps:
        thread.join(1)  # a grandchild may have the stream still
    return ranks, ended


def in_folder(lab, program, env, folder, seconds):
    """As labelled(), to files out.RANK and err.RANK."""
    files = {(kind, r): open(os.path.join(folder, f'{kind}.{r}'), 'w',
                             encoding='utf-8')
             for kind in ('out', 'err') for r in range(lab.layout.nranks)}
    ranks = start(lab, program, env, lambda r: {'stdout': files['out', r],
                                                'stderr': files['err', r]})
    ended = wait(ranks, time.monotonic() + seconds)
    for file in files.values():
        file.close()
    return ranks, ended


# --- MPI ----------------------------------------------------------------------


def openmpi(lab, extra, env, ucx):
    """mpirun and its options. Each host takes the CPUs for its own, so waiting
    ranks have to be told to yield."""
    layout = lab.layout
    slots = ','.join(f'{lab.name(h)}:{layout.ranks_per_host}'
                     for h in range(layout.hosts))
    words = ['mpirun.openmpi', '--allow-run-as-root', '-n',
             str(layout.nranks), '--host', slots, '--bind-to', 'none',
             '--map-by', 'node' if layout.place == 'round_robin' else 'slot']
    mca = {'plm_rsh_agent': lab.agent, 'oob_tcp_if_include': 'eth0',
           'mpi_yield_when_idle': '1'}
    if ucx:
        mca.update(pml='ucx', opal_common_ucx_tls='any',
                   opal_common_ucx_devices='any')
        env = {**MPI_UCX, **env}
    else:
        mca.update(pml='ob1', btl='tcp,self,vader',
                   btl_tcp_if_include='eth0')
    for name, value in mca.items():
        words += ['--mca', name, value]
    for name, value in env.items():
        words += ['-x', f'{name}={value}']
    return words + list(extra)


def mpich(lab, extra, env):
    layout = lab.layout
    count = 1 if layout.place == 'round_robin' else layout.ranks_per_host
    hosts = ','.join(f'{lab.name(h)}:{count}' for h in range(layout.hosts))
    words = ['mpirun.mpich', '-launcher', 'ssh', '-launcher-exec', lab.agent,
             '-iface', 'eth0', '-hosts', hosts, '-n', str(layout.nranks)]
    for name, value in {**MPI_UCX, **env}.items():
        words += ['-genv', name, value]
    return words + list(extra)


def mpi(lab, name, extra=(), env=None):
    """The words that start an MPI program when its own come after them:
    openmpi, openmpi-ucx or mpich. They run on the first host."""
    env = env or {}
    found = (mpich(lab, extra, env) if name == 'mpich'
             else openmpi(lab, extra, env, ucx=name.endswith('-ucx')))
    return [*lab.enter(0), f'TMPDIR={netlab.FILES}',
            'OMPI_ALLOW_RUN_AS_ROOT=1', 'OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1',
            *found]
