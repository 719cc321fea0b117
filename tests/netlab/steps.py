# SPDX-License-Identifier: MIT
"""Runs steps_job on the hosts of a Lab and reads what it says.

    run = steps.run(lab, BUILD, ['200x65536', '@slow', '200x65536'],
                    {'slow': lambda: lab.set_rate('trunk0', 40e6)}, 30)
    run.operations[k].candidate, run.us[k]    of the k-th allreduce
"""
import dataclasses
import re

from inside import tap
import lab as netlab
import launch
import marks

CHOICE = re.compile(r'select: operation (\d+): (\w+) of (\d+) bytes runs '
                    r'(\w+) (\w+) (\d+)(, a trial)?$', re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Operation:
    """One collective as COLL_LOG=select:debug tells it."""
    number: int
    collective: str
    bytes: int
    algorithm: str
    order: str
    segments: int
    trial: bool  # another candidate was held for the best

    @property
    def candidate(self):
        return self.algorithm, self.order


def choices(text):
    """What a rank's standard error says that it ran."""
    return [Operation(int(number), collective, int(size), algorithm, order,
                      int(segments), bool(trial))
            for number, collective, size, algorithm, order, segments, trial
            in CHOICE.findall(text)]


def agreed(errs):
    """The operations, which must be the same on all ranks."""
    found = [choices(err) for err in errs]
    for rank, sequence in enumerate(found):
        for mine, theirs in zip(found[0], sequence):
            tap.expect(mine == theirs,
                       f'rank 0 ran {mine}, rank {rank} {theirs}')
        tap.expect(len(sequence) == len(found[0]),
                   f'rank 0 ran {len(found[0])} operations, rank {rank} '
                   f'{len(sequence)}')
    return found[0]


def launched(lab, program, seconds, **env):
    """A job that must end well: standard output and error of each rank."""
    env = {'COLL_LOG': 'select:debug,probe:info',
           'COLL_JOIN_SECONDS': '30', 'COLL_OP_SECONDS': '30', **env}
    ranks, outs, errs, ended = launch.run(lab, program, seconds, **env)
    for rank, err in zip(ranks, errs):
        tap.expect(ended, f'not over after {seconds} s')
        tap.expect(rank.status == 0, f'rank {rank.number} ended with '
                   f'{rank.status}: {err.strip()[-300:]}')
    return outs, errs


@dataclasses.dataclass
class Run:
    operations: list  # the allreduces of all steps, as all ranks ran them
    us: list          # what each took, of the slowest rank
    probe: str        # what rank 0 found at start


def run(lab, build, words, actions, seconds, **env):
    """actions: what a step @NAME stands for, by name."""
    paths = {f'{netlab.FILES}/{name}': action
             for name, action in actions.items()}
    with marks.Marks(paths) as marked:
        outs, errs = launched(lab, [f'{build}/steps_job', netlab.FILES, *words],
                              seconds, **env)
    tap.expect(len(marked.done) == len(paths), 'marks that came:', marked.done)
    operations = [operation for operation in agreed(errs)
                  if operation.collective == 'allreduce']
    times = [[float(word) for word in out.split()] for out in outs]
    tap.expect(all(len(own) == len(operations) for own in times),
               f'{len(operations)} allreduces, times of', *map(len, times))
    probe = re.search(r'probe: (.*)', errs[0])
    return Run(operations, [max(each) for each in zip(*times)],
               probe[1] if probe else '')
