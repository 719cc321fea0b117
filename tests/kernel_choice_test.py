# SPDX-License-Identifier: MIT
"""coll_train --kernel and --precision from outside: all ways learn the same, and
what was measured is kept.

Usage: kernel_choice_test.py BUILD_DIR; prints TAP. Each test is a function whose
name is its claim.
"""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tap  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
TRAIN = os.path.join(BUILD, 'coll_train')
NET = '''input 3x16x16
conv 32 3x3 pad 1
relu
conv 32 3x3 pad 1
relu
conv 64 1x1
relu
conv 32 3x3 stride 2 pad 1
relu
conv 16 5x5 stride 2
dense 10
softmax_loss
'''
FOLDER = tempfile.TemporaryDirectory()
CACHE = os.path.join(FOLDER.name, 'libcoll')


def train(*options, status=0, before=()):
    net = os.path.join(FOLDER.name, 'small.net')
    log = os.path.join(FOLDER.name, 'log')
    with open(net, 'w', encoding='ascii') as file:
        file.write(NET)
    done = subprocess.run(
        [*before, TRAIN, '--net', net, '--data', 'synthetic:96x3x16x16', '--batch', '16',
         '--lr', '0.002', '--log', log, *options], text=True, timeout=60,
        capture_output=True, check=False,
        env=dict(os.environ, XDG_CACHE_HOME=FOLDER.name))
    tap.expect(done.returncode == status, done.returncode, done.stderr)
    if status:
        return done.stderr
    with open(log, encoding='ascii') as file:
        return [json.loads(line)['loss'] for line in file]


def cache_file(folder=FOLDER.name):
    """The only one; None: there is none."""
    files = glob.glob(os.path.join(folder, 'libcoll', 'conv-*.txt'))
    tap.expect(len(files) <= 1, files)
    return files[0] if files else None


def keep(text):
    with open(cache_file(), 'w', encoding='ascii') as file:
        file.write(text)


def kept():
    with open(cache_file(), encoding='ascii') as file:
        return file.read()


@tap.case
def test_all_ways_learn_the_same():
    plain = train('--kernel', 'auto', '--epochs', '5')
    for name, threads in (('direct', 1), ('gemm', 1), ('winograd', 1),
                          ('strassen', 1), ('measured', 1), ('gemm', 2),
                          ('winograd', 2), ('strassen', 2)):
        other = train('--kernel', name, '--threads', str(threads))
        for a, b in zip(plain[:6], other):
            tap.expect(abs(a - b) < 1e-4 * a, name, threads, plain, other)
    tap.expect(sum(plain[-7:-1]) < sum(plain[:6]), 'nothing was learned:', plain)


@tap.case
def test_what_was_measured_is_kept_and_repeats_bit_by_bit():
    first = train('--kernel', 'measured')
    text = kept()
    lines = text.splitlines()
    tap.expect(lines[0].startswith('conv 6 '), lines[0])
    for words in 'forward', 'backward_data', 'backward_weights':
        tap.expect(any(f' {words} ' in line for line in lines), words, text)
    tap.expect(train('--kernel', 'measured') == first, 'other bits')
    tap.expect(kept() == text, 'it was measured again')


@tap.case
def test_what_is_kept_is_taken():
    train('--kernel', 'measured')
    rows = [line.split() for line in kept().splitlines()[1:]]
    keep('\n'.join(HEAD[:1] + [' '.join(row[:-1] + ['gemm'])
                               for row in rows]) + '\n')
    tap.expect(train('--kernel', 'measured') == train('--kernel', 'gemm'),
               'not what the file says')


@tap.case
def test_a_file_of_another_machine_or_a_broken_one_is_written_anew():
    for text in ('conv 6 none Another machine\n',
                 HEAD[0].replace('conv 6', 'conv 5') + '\n', '', 'x' * 5000, '\0\n\n',
                 HEAD[0] + '\n1 2 3\n16 3 16 nonsense\n'):
        keep(text)
        train('--kernel', 'measured')
        tap.expect(kept().startswith(HEAD[0]), kept()[:200])
        tap.expect('nonsense' not in kept() and len(kept().splitlines()) > 6,
                   kept())


@tap.case
def test_without_a_folder_it_is_measured_and_not_kept():
    shutil.rmtree(CACHE)
    with open(CACHE, 'w', encoding='ascii'):
        pass
    try:
        train('--kernel', 'measured')
        tap.expect(os.path.getsize(CACHE) == 0, 'it was kept')
    finally:
        os.remove(CACHE)


@tap.case
def test_all_ranks_take_what_rank_0_knows():
    two = [os.path.join(BUILD, 'collrun'), '-n', '2', 'sh', '-c',
           f'XDG_CACHE_HOME={FOLDER.name}/$COLL_RANK exec "$@"', 'sh']
    first = train('--kernel', 'measured', before=two)
    files = [cache_file(os.path.join(FOLDER.name, str(r))) for r in range(2)]
    tap.expect(files[0] and not files[1], 'who has measured?')
    files[1] = files[0].replace(os.path.join(FOLDER.name, '0'),
                                os.path.join(FOLDER.name, '1'))
    with open(files[0], encoding='ascii') as file:
        lines = file.read().splitlines()
    tap.expect(train('--kernel', 'measured', before=two) == first, 'other bits')
    texts = {way: '\n'.join([lines[0]] + [line.rsplit(' ', 1)[0] + f' {way}'
                                          for line in lines[1:]]) + '\n'
             for way in ('gemm', 'direct')}
    os.makedirs(os.path.dirname(files[1]))
    for ways in ('gemm', 'direct'), ('direct', 'gemm'):
        for path, way in zip(files, ways):
            with open(path, 'w', encoding='ascii') as file:
                file.write(texts[way])
        tap.expect(train('--kernel', 'measured', before=two)
                   == train('--kernel', ways[0], before=two), ways)
        with open(files[1], encoding='ascii') as file:
            tap.expect(file.read() == texts[ways[1]], 'rank 1 has written')


@tap.case
def test_threads_have_choices_of_their_own():
    train('--kernel', 'measured')
    train('--kernel', 'measured', '--threads', '2')
    images = {line.split()[0] for line in kept().splitlines()[1:]}
    tap.expect(images == {'16', '8'}, images)


@tap.case
def test_bf16_learns_as_f32_does():
    plain = train('--epochs', '5')
    for name, threads in (('auto', 1), ('direct', 1), ('measured', 1),
                          ('auto', 3)):
        other = train('--kernel', name, '--precision', 'bf16', '--epochs', '5',
                      '--threads', str(threads))
        tap.expect(plain != other or name == 'measured', name, 'is f32')
        for a, b in zip(plain[:6], other):
            tap.expect(abs(a - b) < 0.02 * a, name, threads, plain, other)
        tap.expect(sum(other[-7:-1]) < sum(other[:6]), name, other)


@tap.case
def test_what_is_measured_in_bf16_is_kept_apart():
    first = train('--kernel', 'measured')
    train('--kernel', 'measured', '--precision', 'bf16')
    rows = [line.split() for line in kept().splitlines()[1:]]
    for numbers in 'f32', 'bf16':
        tap.expect(sum(row[-2] == numbers for row in rows) >= 8, rows)
    tap.expect(['f32', 'bf16'] not in [row[-2:] for row in rows], rows)
    tap.expect(train('--kernel', 'measured') == first, 'other bits')


@tap.case
def test_a_checkpoint_has_no_precision():
    path = os.path.join(FOLDER.name, 'checkpoint')
    bf16 = ('--precision', 'bf16')
    whole = train(*bf16, '--steps', '9')
    for again, same in (bf16, True), ((), False):
        train(*bf16, '--steps', '5', '--checkpoint', path)
        found = train(*again, '--steps', '9', '--resume', path)
        tap.expect(found[:5] == whole[:5] and len(found) == len(whole), found)
        tap.expect((found == whole) == same, again, found, whole)


@tap.case
def test_lenet_is_as_good_in_bf16():
    scores = []
    for numbers in 'f32', 'bf16':
        done = subprocess.run(
            [TRAIN, '--precision', numbers, '--lr', '0.05', '--seed', '3'],
            text=True, timeout=300, capture_output=True, check=False)
        if 'fashion-mnist' in done.stderr:
            raise tap.Skip(done.stderr)
        scores.append(float(done.stdout.split()[2]))
    # Ten thousand images: of runs as good as each other 3 in 1000 are further
    # apart than 0.014.
    tap.expect(min(scores) > 0.8 and abs(scores[0] - scores[1]) < 0.014, scores)


@tap.case
def test_other_names_are_refused():
    for words, expected in (
            (('--kernel', 'windograd'), 'did you mean winograd?'),
            (('--kernel', 'bf16'), 'valid is auto, direct'),
            (('--precision', 'bf61'), 'valid is f32, bf16; did you mean bf16?'),
            (('--precision', 'bf16', '--kernel', 'gemm'),
             '"gemm", which computes in f32; valid with --precision bf16 is'),
            (('--precision', 'bf16', '--kernel', 'winograd'), '"winograd"')):
        error = train(*words, status=2)
        tap.expect(expected in error and error.count('\n') == 1, error)


@tap.case
def test_a_wrong_line_of_a_net_is_said_with_its_file():
    path = os.path.join(FOLDER.name, 'wrong.net')
    with open(path, 'w', encoding='ascii') as file:
        file.write(NET.replace('64 1x1', '64 1x1 bad'))
    error = train('--net', path, status=2)
    tap.expect(error.startswith(f'coll_train: --net {path}: line 6, column 13: '
                                '"bad"'), error)


train('--kernel', 'measured')
HEAD = kept().splitlines()
sys.exit(tap.run())
