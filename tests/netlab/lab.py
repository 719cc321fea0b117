# SPDX-License-Identifier: MIT
"""Hosts, as far as one machine can be several: a network in namespaces.

    status = run_inside(work, timeout)    work() runs where it may build a Lab
    lab = Lab(Layout(hosts=4, groups=(2,), trunk_rate=(250e6,)))
    subprocess.run(lab.enter(0) + ['ping', '-c1', 'host3'])
    lab.counters()                        bytes of every port and trunk

run_inside() starts a process that is the first of a process namespace of its
own, and whose mounts nobody else sees. Network namespaces have names only among
those mounts, and all that is written lies on file systems mounted there, of
which one is /dev/shm. So when that process ends, however it ends, the kernel ends all that it started and
removes all that it made; nothing is left to clean up, and labs of several
users do not meet.

A host is a process that sleeps, with a network, a host name, System V memory,
/sys and /dev/shm of its own. Interface eth0 leads to a switch: bridges joined
by veth pairs, with rates set by tbf; or, where packets are to be delayed, the
program delay_switch, because few kernels have netem. A second rail is interface
eth1 of each host, with bridges and a network of its own.
"""
import ctypes
import dataclasses
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

NETNS = '/run/netns'
FILES = NETNS + '/netlab-files'  # goes with the mounts
SWITCH = 'switch'
CLONE_NEWNS, CLONE_NEWPID = 0x00020000, 0x20000000
PR_SET_PDEATHSIG = 1
HOSTS_MAX = 16


class Skip(Exception):
    """Why there can be no lab here."""


class Failed(Exception):
    """What went wrong in one."""


# --- a place that leaves nothing behind ---------------------------------------


def missing():
    """Why there can be no lab on this machine, or None."""
    if os.geteuid() != 0:
        return 'network namespaces need root'
    for tool in ('ip', 'tc', 'nsenter', 'unshare', 'mount'):
        if not shutil.which(tool):
            return f'no {tool} here (Debian: iproute2, util-linux, mount)'
    return None


def _libc(function, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, function)(*arguments) != 0:
        raise Skip(f'{function}: {os.strerror(ctypes.get_errno())}')


def _prepare_mounts():
    try:
        for command in (['mount', '--make-rprivate', '/'],
                        ['mount', '-t', 'proc', 'proc', '/proc'],
                        ['mount', '-t', 'tmpfs', 'tmpfs', '/dev/shm']):
            _command(command)
        os.makedirs(NETNS, exist_ok=True)
        _command(['mount', '-t', 'tmpfs', 'netlab', NETNS])
        os.mkdir(FILES)
    except Failed as error:
        raise Skip(f'no mounts of its own: {error}')


def _end(number, _):
    raise SystemExit(128 + number)


def _inside(work):
    """The first process in there; its exit status."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        _libc('prctl', PR_SET_PDEATHSIG, signal.SIGKILL)
        _libc('unshare', CLONE_NEWNS)
        _prepare_mounts()
        return work()
    except Skip as error:
        print(f'{os.path.basename(sys.argv[0])}: skipped: {error}',
              file=sys.stderr)
        return 77
    except Failed as error:
        print(f'{os.path.basename(sys.argv[0])}: {error}', file=sys.stderr)
        return 1


def _watch(child, timeout):
    """Passes signals on and sees to it that the child ends."""
    deadline = time.monotonic() + timeout
    asked = []

    def ask(number, _):
        asked.append(number)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, ask)
    patience = None
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        now = time.monotonic()
        if not patience and (asked or now > deadline):
            if not asked:
                print(f'{os.path.basename(sys.argv[0])}: not done in '
                      f'{timeout:g} s', file=sys.stderr)
            os.kill(child, signal.SIGTERM)
            patience = now + 5
        elif patience and now > patience:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.02)


def run_inside(work, timeout):
    """Runs work(), which returns an exit status, in a process of its own with
    everything that it starts, for at most `timeout` seconds. Returns the
    status: 77 if the machine has no room for a lab, 124 after the timeout."""
    why = missing()
    try:
        if why:
            raise Skip(why)
        sys.stdout.flush()
        _libc('unshare', CLONE_NEWPID)
    except Skip as error:
        print(f'{os.path.basename(sys.argv[0])}: skipped: {error}',
              file=sys.stderr)
        return 77
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = _inside(work)
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        except BaseException:  # pylint: disable=broad-except
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    begin = time.monotonic()
    status = _watch(child, timeout)
    if time.monotonic() - begin > timeout:
        return 124
    return status if status >= 0 else 128 - status


# --- hosts and wires ----------------------------------------------------------


def _command(words, **more):
    done = subprocess.run(words, text=True, capture_output=True, check=False,
                          **more)
    if done.returncode != 0:
        raise Failed(f'{shlex.join(words)}: {done.stderr.strip()}')
    return done.stdout


def ip(namespace, *lines):
    """Lines for ip -batch, in a namespace or, with None, outside of all."""
    where = ['-n', namespace] if namespace else []
    _command(['ip', *where, '-batch', '-'], input='\n'.join(lines) + '\n')


def wait_for_carrier(namespace, device):
    """The kernel tells a little later that a link that was set up runs; who
    looks before, as UCX does, leaves it out. Not before it has removed the
    namespaces of a lab that ended."""
    for _ in range(500):
        link, = json.loads(_command(['ip', '-n', namespace, '-j', 'link', 'show',
                                     'dev', device]))
        if link['operstate'] in ('UP', 'UNKNOWN'):
            return
        time.sleep(0.02)
    raise Failed(f'{namespace}: {device} does not come up')


@dataclasses.dataclass
class Layout:
    """Rates in bit/s and 0 for no limit. Delays in s, one way: from a host to
    another at the same switch, and what a trunk adds."""
    hosts: int = 4
    ranks_per_host: int = 1
    place: str = 'block'     # or round_robin: rank r is on host r % hosts; or
                             # a tuple with the host of each rank
    groups: tuple = ()       # (2,): two groups; (2, 2): two of two
    rate: float = 0          # of each port
    rails: int = 1           # interfaces of each host, each with its switch
    rail_rate: tuple = ()    # of the second rail's ports and on; default: rate
    delay: float = 0
    trunk_rate: tuple = ()   # from the outermost inwards; the last one repeats
    trunk_delay: tuple = ()
    queue: int = 4 << 20     # bytes that may wait before a wire
    burst: int = 128 << 10   # of tbf; with less it cuts up what TCP sends
    ipv6: bool = False       # addresses of this kind alone
    hostnames: tuple = ()    # default: host0, host1, ...
    delay_switch: str = ''   # the program, for layouts with a delay

    @property
    def nranks(self):
        if isinstance(self.place, tuple):
            return len(self.place)
        return self.hosts * self.ranks_per_host

    def host_of(self, rank):
        if isinstance(self.place, tuple):
            return self.place[rank]
        if self.place == 'round_robin':
            return rank % self.hosts
        return rank // self.ranks_per_host

    @property
    def delayed(self):
        return self.delay > 0 or any(d > 0 for d in self.trunk_delay)

    def of_level(self, values, level):
        return values[min(level, len(values) - 1)] if values else 0

    def rate_of(self, rail):
        further = self.rail_rate if rail else ()
        return self.of_level(further, rail - 1) if further else self.rate


class Tree:
    """Nodes are switches. leaves: those with hosts; trunks: pairs of nodes,
    each with its level, 0 for the outermost."""

    def __init__(self, groups):
        self.nnodes, self.leaves, self.trunks = 0, [], []
        if groups and groups[0] == 2:
            ends = [self.grow(groups[1:], 1) for _ in range(2)]
            self.trunks.append((*ends, 0))
        else:
            self.grow(groups, 0)

    def grow(self, groups, level):
        node, self.nnodes = self.nnodes, self.nnodes + 1
        if not groups:
            self.leaves.append(node)
        for _ in range(groups[0] if groups else 0):
            self.trunks.append((self.grow(groups[1:], level + 1), node, level))
        return node


# A host's own view of the system; then it sleeps. Its words are the host's name
# and a file for /etc/hosts.
HOST = r'''
set -e
echo "$0" >/proc/sys/kernel/hostname
aside=$1.cgroup && mkdir -p "$aside"
mount --rbind /sys/fs/cgroup "$aside"
mount -t sysfs sysfs /sys
mount --rbind "$aside" /sys/fs/cgroup || :
mount -t tmpfs tmpfs /dev/shm
mount --bind "$1" /etc/hosts
echo ready
exec sleep infinity
'''


def prefix(rail):
    """Of the switch's names on a rail."""
    return f'r{rail}' if rail else ''


class Lab:
    """What a Layout says, for as long as this process lives."""

    def __init__(self, layout, before=None):
        """before(lab, host) may give a host further interfaces, that then come
        before eth0."""
        self.layout = layout
        self.tree = Tree(layout.groups)
        self.holders, self.switch = [], None
        self.next_port = 7000
        self.agent = f'{FILES}/agent'
        if not 1 <= layout.hosts <= HOSTS_MAX:
            raise Failed(f'found {layout.hosts} hosts, valid is 1 to '
                         f'{HOSTS_MAX}')
        if layout.rails < 1 or (layout.rails > 1 and layout.delayed):
            raise Failed(f'found {layout.rails} rails, valid is at least 1, '
                         'and 1 with delays')
        if len(self.tree.leaves) > layout.hosts:
            raise Failed(f'{len(self.tree.leaves)} groups are more than '
                         f'{layout.hosts} hosts')
        try:
            ip(None, f'netns add {SWITCH}')
            ip(SWITCH, 'link set lo up')
            for h in range(layout.hosts):
                self._make_host(h)
                if before:
                    before(self, h)
        except Failed as error:
            raise Skip(f'no network namespaces here: {error}')
        if layout.delayed:
            self._start_delay_switch()
        for rail in range(layout.rails):
            if not layout.delayed:
                self._make_bridges(rail)
            for h in range(layout.hosts):
                self._give_address(h, rail)
            for h in range(layout.hosts):
                wait_for_carrier(self.name(h), f'eth{rail}')
        self._write_agent()

    # Names and addresses.

    def name(self, h):
        return f'host{h}'

    def hostname(self, h):
        names = self.layout.hostnames
        return names[h] if names else self.name(h)

    def address(self, h, rail=0):
        number = 77 + rail
        return (f'fd{number}::{h + 1:x}' if self.layout.ipv6
                else f'10.{number}.0.{h + 1}')

    def root(self):
        """HOST:PORT on rank 0's host, another one each time."""
        self.next_port += 1
        form = '[{}]:{}' if self.layout.ipv6 else '{}:{}'
        return form.format(self.address(self.layout.host_of(0)),
                           self.next_port)

    def leaf(self, h):
        leaves = self.tree.leaves
        return leaves[h * len(leaves) // self.layout.hosts]

    def enter(self, h):
        """The words that make a command run on a host, in this folder."""
        return ['nsenter', '-t', str(self.holders[h].pid), '-n', '-u', '-i',
                '-m', 'env', '-C', os.getcwd()]

    # Building.

    def _make_host(self, h):
        names = f'{FILES}/{self.name(h)}.hosts'
        with open(names, 'w', encoding='utf-8') as file:
            print('127.0.0.1 localhost\n::1 localhost', file=file)
            for other in range(self.layout.hosts):
                print(self.address(other), self.name(other), file=file)
        holder = subprocess.Popen(
            ['unshare', '--net', '--uts', '--ipc', '--mount', 'bash', '-c',
             HOST, self.hostname(h), names], stdin=subprocess.DEVNULL,
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.holders.append(holder)
        if holder.stdout.readline() != 'ready\n':
            raise Failed(holder.stderr.read().strip())
        ip(None, f'netns attach {self.name(h)} {holder.pid}')
        ip(self.name(h), 'link set lo up')

    def _limit(self, namespace, device, rate):
        if rate <= 0:
            return
        _command(['tc', '-n', namespace, 'qdisc', 'replace', 'dev', device,
                  'root', 'tbf', 'rate', f'{rate:.0f}bit', 'burst',
                  str(self.layout.burst), 'limit', str(self.layout.queue)])

    def _make_bridges(self, rail):
        layout, at = self.layout, prefix(rail)
        for node in range(self.tree.nnodes):
            ip(SWITCH, f'link add {at}node{node} type bridge',
               f'link set {at}node{node} up')
        for i, (a, b, level) in enumerate(self.tree.trunks):
            trunk = f'{at}trunk{i}'
            ip(SWITCH, f'link add {trunk}a type veth peer name {trunk}b',
               f'link set {trunk}a master {at}node{a} up',
               f'link set {trunk}b master {at}node{b} up')
            rate = layout.of_level(layout.trunk_rate, level)
            for end in 'ab':
                self._limit(SWITCH, f'{trunk}{end}', rate)
        rate = layout.rate_of(rail)
        for h in range(layout.hosts):
            ip(SWITCH, f'link add {at}port{h} type veth peer name eth{rail} '
               f'netns {self.name(h)}',
               f'link set {at}port{h} master {at}node{self.leaf(h)} up')
            self._limit(SWITCH, f'{at}port{h}', rate)
            self._limit(self.name(h), f'eth{rail}', rate)

    def _start_delay_switch(self):
        layout = self.layout
        if not os.path.exists('/dev/net/tun'):
            raise Skip('no /dev/net/tun here, which delays need')
        if not os.access(layout.delay_switch, os.X_OK):
            raise Failed('delays need the program delay_switch; found '
                         f'"{layout.delay_switch}"')
        words = [f'port={self.leaf(h)},{layout.rate},{layout.delay / 2 * 1e9}'
                 for h in range(layout.hosts)]
        words += [f'trunk={a},{b},{layout.of_level(layout.trunk_rate, level)},'
                  f'{layout.of_level(layout.trunk_delay, level) * 1e9}'
                  for a, b, level in self.tree.trunks]
        self.switch = subprocess.Popen(
            ['ip', 'netns', 'exec', SWITCH,
             os.path.abspath(layout.delay_switch), '-q', str(layout.queue),
             *words], text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if self.switch.stdout.readline() != 'ready\n':
            raise Failed(self.switch.stderr.read().strip())
        for h in range(layout.hosts):
            ip(SWITCH, f'link set port{h} netns {self.name(h)} name eth0')

    def _give_address(self, h, rail):
        """With cubic, as most hosts have; by the route, because a namespace
        may not choose what the machine reserves."""
        name, device = self.name(h), f'eth{rail}'
        address = self.address(h, rail)
        if self.layout.ipv6:
            ip(name, f'link set {device} up',
               f'address add {address}/64 dev {device} nodad')
            return
        ip(name, f'address add {address}/24 dev {device}',
           f'link set {device} up')
        try:
            ip(name, f'route replace 10.{77 + rail}.0.0/24 dev {device} scope '
               f'link src {address} congctl cubic')
        except Failed:
            pass  # a kernel without cubic

    def _write_agent(self):
        """What MPI's launchers take for ssh: agent [-x] HOST COMMAND..."""
        cases = '\n'.join(f'    {self.name(h)}) pid={holder.pid} ;;'
                          for h, holder in enumerate(self.holders))
        with open(self.agent, 'w', encoding='utf-8') as file:
            file.write(f'''#!/bin/bash
while [[ $1 == -* ]]; do shift; done
case $1 in
{cases}
    *) echo "agent: no host $1" >&2; exit 1 ;;
esac
shift
exec nsenter -t $pid -n -u -i -m env -C {shlex.quote(os.getcwd())} \\
    bash -c "$*"
''')
        os.chmod(self.agent, 0o755)

    # Using.

    def counters(self):
        """{'ports': [{'tx': {'bytes': ...}, 'rx': ...}], as the hosts see it,
        'trunks': [{'ends': [a, b], 'forth': ..., 'back': ...}], 'rails': ports
        of all rails, the first one's too}. A delay_switch ends by this, and
        with it the network."""
        if self.switch:
            self.switch.terminate()
            text, errors = self.switch.communicate(timeout=10)
            if self.switch.returncode != 0:
                raise Failed(f'delay_switch: {errors.strip()}')
            found = json.loads(text)
            found['rails'] = [found['ports']]
        else:
            found = self._bridge_counters()
        for trunk, (a, b, _) in zip(found['trunks'], self.tree.trunks):
            trunk['ends'] = [a, b]
        found['leaf_of_host'] = [self.leaf(h)
                                 for h in range(self.layout.hosts)]
        return found

    def _bridge_counters(self):
        links = {link['ifname']: link['stats64'] for link in json.loads(
            _command(['ip', '-n', SWITCH, '-j', '-s', 'link', 'show']))}

        def one(device, way):
            stats = links[device][way]
            return {'bytes': stats['bytes'], 'frames': stats['packets'],
                    'dropped': stats['dropped']}
        rails = [[{'tx': one(f'{prefix(rail)}port{h}', 'rx'),
                   'rx': one(f'{prefix(rail)}port{h}', 'tx')}
                  for h in range(self.layout.hosts)]
                 for rail in range(self.layout.rails)]
        return {'ports': rails[0], 'rails': rails,
                'trunks': [{'forth': one(f'trunk{i}a', 'tx'),
                            'back': one(f'trunk{i}b', 'tx')}
                           for i in range(len(self.tree.trunks))]}

    def set_rate(self, wire, rate):
        """From now on, in both directions; wire: 'host2', its first port, or
        'trunk0'. What waits in a queue stays there."""
        ends = {self.name(h): ((SWITCH, f'port{h}'), (self.name(h), 'eth0'))
                for h in range(self.layout.hosts)}
        for i in range(len(self.tree.trunks)):
            ends[f'trunk{i}'] = [(SWITCH, f'trunk{i}{end}') for end in 'ab']
        if self.switch:
            raise Failed('a rate can change only in layouts without a delay')
        if wire not in ends or rate <= 0:
            raise Failed(f'found "{wire}", {rate:g} bit/s; valid is more than '
                         f'0 for {", ".join(ends)}')
        for namespace, device in ends[wire]:
            self._limit(namespace, device, rate)

    def close(self):
        """Ends the hosts, so that another Lab can be made."""
        self.kill_strays()
        for process in [*self.holders, *([self.switch] if self.switch else [])]:
            process.kill()
            process.wait()
        for name in [SWITCH] + [self.name(h)
                                for h in range(self.layout.hosts)]:
            ip(None, f'netns delete {name}')

    def kill_strays(self):
        """Ends all processes but this one, the hosts and the switch: what an
        MPI's launcher leaves behind when it is killed."""
        ours = {os.getpid(), *(h.pid for h in self.holders)}
        if self.switch:
            ours.add(self.switch.pid)
        for name in os.listdir('/proc'):
            if name.isdigit() and int(name) not in ours:
                try:
                    os.kill(int(name), signal.SIGKILL)
                except OSError:
                    pass  # ended meanwhile
        while True:  # the orphans are this process's children
            try:
                if not self._reap_stray(ours):
                    return
            except ChildProcessError:
                return

    @staticmethod
    def _reap_stray(ours):
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if not found or found.si_pid in ours:
            return False
        os.waitpid(found.si_pid, os.WNOHANG)
        return True
