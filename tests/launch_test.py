# SPDX-License-Identifier: MIT
"""Jobs that others than collrun start: usage launch_test.py BUILD_DIR."""
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
import tap  # noqa: E402

JOB = os.path.join(os.path.abspath(sys.argv[1]), 'launch_job')
OF_LAUNCHERS = ('COLL_', 'PMIX_', 'PMI_', 'SLURM_', 'OMPI_')
ENV = {name: value for name, value in os.environ.items()
       if not name.startswith(OF_LAUNCHERS)}


def expect_job(out, nranks):
    """Each rank was in two jobs."""
    wanted = 2 * [f'rank {rank} of {nranks}' for rank in range(nranks)]
    tap.expect(sorted(out.splitlines()) == sorted(wanted), out)


def slurm(nranks, nodes, job, **more):
    ranks = [subprocess.Popen(
        [JOB], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**ENV, 'SLURM_PROCID': str(rank), 'SLURM_JOB_ID': str(job),
             'SLURM_STEP_NUM_TASKS': str(nranks), 'SLURM_STEP_ID': '0',
             'SLURM_STEP_NODELIST': nodes, **more})
             for rank in range(nranks)]
    done = [rank.communicate(timeout=60) for rank in ranks]
    return (max(rank.returncode for rank in ranks),
            ''.join(out for out, _ in done), ''.join(err for _, err in done))


@tap.case
def test_steps_of_slurm_are_jobs():
    status, out, err = slurm(3, 'localhost', os.getpid())
    tap.expect(status == 0, err)
    expect_job(out, 3)


@tap.case
def test_the_first_node_of_a_list_is_the_root():
    for nodes, first in (('no[03-05,9]such,m1', 'no03such'),
                         ('r[1-2]n[4,6-7],x', 'r1n4'), ('a-b,c', 'a-b')):
        _, _, err = slurm(2, nodes, 1, COLL_JOIN_SECONDS='0.1')
        tap.expect(f'{first}:' in err, nodes, err)


@tap.case
def test_a_batch_script_is_one_rank():
    done = subprocess.run([JOB], env={**ENV, 'SLURM_PROCID': '0',
                                      'SLURM_NTASKS': '4'}, text=True,
                          capture_output=True, timeout=60, check=True)
    expect_job(done.stdout, 1)


@tap.case
def test_a_launcher_that_cannot_be_understood_is_named():
    done = subprocess.run([JOB], env={**ENV, 'PMI_RANK': '1', 'PMI_SIZE': '2'},
                          text=True, capture_output=True, timeout=60,
                          check=False)
    tap.expect(done.returncode == 1 and 'PMI_SIZE=2: a launcher without PMIx'
               in done.stderr, done.stderr)


@tap.case
def test_mpirun_of_open_mpi_starts_jobs():
    if not shutil.which('mpirun.openmpi'):
        raise tap.Skip('no Open MPI here (Debian: openmpi-bin)')
    env = {**ENV, 'ASAN_OPTIONS': ENV.get('ASAN_OPTIONS', '')
           + ':detect_leaks=0'}  # PMIx keeps what it has until the process ends
    done = subprocess.run(
        ['mpirun.openmpi', '--allow-run-as-root', '--oversubscribe', '-n', '3',
         JOB], env=env, text=True, capture_output=True, timeout=100, check=False)
    if 'built without PMIx' in done.stderr:
        raise tap.Skip('built without PMIx (Debian: libpmix-dev)')
    tap.expect(done.returncode == 0, done.returncode, done.stderr)
    expect_job(done.stdout, 3)


if __name__ == '__main__':
    sys.exit(tap.run(tap.chosen(tap.CASES)))
