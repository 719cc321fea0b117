# SPDX-License-Identifier: MIT
"""coll_sim as tests call it, which get the build folder."""
import json
import math
import os
import subprocess
import sys
import tempfile

BUILD = os.path.abspath(sys.argv[1])
SIM = os.path.join(BUILD, 'coll_sim')
ENV = {k: v for k, v in os.environ.items() if not k.startswith('COLL_')}
FLAT = 'node:64 (1us 1GB/s) core:1'
GROUPS = 'supernode:4 (3us 3GB/s) node:16 (1us 12GB/s)'
ALPHA, BETA = 1e-6, 1e-9


def sim(*args, timeout=100, env=None):
    """Returns (status, stdout, stderr)."""
    done = subprocess.run([SIM, *map(str, args)], env=env or ENV, text=True,
                          capture_output=True, timeout=timeout, check=False)
    return done.returncode, done.stdout, done.stderr


def check(condition, *what):
    if not condition:
        raise AssertionError(' '.join(map(str, what)))


def close(found, wanted, relative, *what):
    check(abs(found - wanted) <= relative * abs(wanted), found, 'is not',
          wanted, *what)


def results(*args, timeout=100):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'out.json')
        status, out, err = sim(*args, '--json', path, timeout=timeout)
        check(status == 0, 'status', status, out, err)
        check(os.listdir(folder) == ['out.json'], os.listdir(folder))
        with open(path, encoding='utf-8') as file:
            return json.load(file)


def closed_forms(p, n, gamma):
    rounds = math.log2(p)
    halving = (2 * rounds * ALPHA + 2 * (p - 1) / p * n * BETA
               + (p - 1) / p * n * gamma)
    return {
        'ring': halving + 2 * (p - 1 - rounds) * ALPHA,
        'halving_doubling': halving,
        'halving_doubling_near': halving,
        'recursive_doubling': rounds * (ALPHA + n * BETA + n * gamma),
        'binomial_tree': rounds * (2 * ALPHA + 2 * n * BETA + n * gamma),
    }
