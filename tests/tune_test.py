# SPDX-License-Identifier: MIT
"""coll_tune, and what libcoll stores, from outside.

Usage: tune_test.py BUILD_DIR; prints TAP. Each test is a function whose name is
its claim. Messages go through UCX, as on one host shared memory would serve all
and nothing would be learned.
"""
import functools
import json
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import tap  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
COLLRUN = os.path.join(BUILD, 'collrun')
TUNE = os.path.join(BUILD, 'coll_tune')
ENV = {k: v for k, v in os.environ.items() if not k.startswith('COLL_')}
SHORT = ['allreduce', '-b', '64', '-e', '4K', '-f', '64', '-n', '60']
HEADER = '# libcoll learned 1'
SHAPE = re.compile(r'# 3 ranks on 1 host \(rank 0: \S+\)')
# Algorithm names may have digits; a time has a unit.
LINE = re.compile(r'(allreduce|reduce|broadcast|reduce_scatter|allgather|gather|'
                  r'scatter|alltoall|barrier) (\d+) ([a-z][a-z0-9_]*) (given|block|round_robin) '
                  r'([0-9.e+-]+) us (\d+)')
# The contract with scripts: names may be added, never changed.
ROW_KEYS = {'collective', 'bytes', 'algorithm', 'rank_order', 'measured_us',
            'predicted_us', 'candidates'}
CANDIDATE_KEYS = {'algorithm', 'rank_order', 'measured_us', 'predicted_us',
                  'samples', 'chosen'}


def tune(*args, ranks=3, store=None, **settings):
    """Returns (status, stdout, stderr)."""
    env = {**ENV, 'COLL_TRANSPORT': 'ucx', **settings}
    if store is not None:
        env['COLL_STORE'] = store
    start = [COLLRUN, '-n', str(ranks)] if ranks > 1 else []
    done = subprocess.run([*start, TUNE, *map(str, args)], env=env, text=True,
                          capture_output=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def check(condition, *what):
    if not condition:
        raise AssertionError(' '.join(map(str, what)))


def test_a_bad_setting_is_refused(store):
    status, out, err = tune(*SHORT, ranks=1, store=store, COLL_ALGO='rng')
    check(status == 2 and not out, status, out)
    check(err.startswith('coll_tune: COLL_ALGO') and err.count('\n') == 1, err)


def succeeds(*args, **how):
    status, out, err = tune(*args, **how)
    check(status == 0, 'status', status, out, err)
    return out, err


def only_file(store):
    names = os.listdir(store)
    check(len(names) == 1, names)
    check(re.fullmatch(r'learned-[0-9a-f]{16}\.txt', names[0]), names)
    return os.path.join(store, names[0])


def lines_of(path):
    with open(path, encoding='utf-8') as file:
        text = file.read()
    check(text.endswith('\n'), 'cut off:', text[-80:])
    first, shape, *rest = text.splitlines()
    check(first == HEADER and SHAPE.fullmatch(shape), first, shape)
    found = [LINE.fullmatch(line) for line in rest]
    check(rest and all(found), rest)
    return [(m[1], int(m[2]), m[3], m[4], float(m[5]), int(m[6]))
            for m in found]


def asked(rows):
    """Without coll_tune's own broadcasts, of which the library learns too."""
    return [row for row in rows if row[:2] != ('broadcast', 4)]


def results_of(path):
    with open(path, encoding='utf-8') as file:
        found = json.load(file)
    check(found['format'] == 'coll_tune 1', found)
    for row in found['results']:
        check(ROW_KEYS <= row.keys(), ROW_KEYS - row.keys())
        chosen = [c for c in row['candidates'] if c['chosen']]
        check(len(chosen) == 1, row)
        check(chosen[0]['algorithm'] == row['algorithm']
              and chosen[0]['rank_order'] == row['rank_order'], row)
        for candidate in row['candidates']:
            check(CANDIDATE_KEYS <= candidate.keys(), candidate)
            check((candidate['measured_us'] > 0) == (candidate['samples'] > 0),
                  candidate)
    return found


def test_what_was_learned_is_stored_whole(store):
    out, err = succeeds(*SHORT, store=store)
    check(err == '', err)
    path = only_file(store)
    check(path in out, out)
    rows = asked(lines_of(path))
    for of, least, _, _, us, samples in rows:
        check(of == 'allreduce' and least in (64, 4096), of, least)
        check(0 < us < 1e7 and 1 <= samples <= 9, us, samples)
    check({row[1] for row in rows} == {64, 4096}, rows)
    check(len({row[:4] for row in rows}) == len(rows), 'a row twice')


def test_lengths_left_out_are_told(store):
    out, _ = succeeds(*SHORT, store=store)
    check('Lengths from 128 to 4095 bytes were not run' in out, out)
    out, _ = succeeds('allreduce', '-b', 64, '-e', 1024, '-f', 4, '-n', 30,
                      store=store)
    check('Lengths from 128 to 255 bytes, and others, were' in out, out)
    path = os.path.join(store, 'out.json')
    out, _ = succeeds('allreduce', '-b', 64, '-e', 300, '-n', 30, '--json',
                      path, store=store)
    check('not run' not in out, out)
    check([r['bytes'] for r in results_of(path)['results']] == [64, 128, 256],
          out)


def not_stored(kept, path):
    """What --json has with samples enough, and the file has not."""
    succeeds(*SHORT, '--json', path, store=kept)
    found = results_of(path)
    check(found['nranks'] == 3 and found['note'] == '', found)
    check(found['stored'] == only_file(kept), found)
    check([row['bytes'] for row in found['results']] == [64, 4096], found)
    check(all(0 < row['operations'] <= 60 for row in found['results']), found)
    stored = {(row[1], *row[2:4]) for row in lines_of(found['stored'])}
    return [(row['bytes'], c) for row in found['results']
            for c in row['candidates'] if c['samples'] >= 3 and
            (row['bytes'], c['algorithm'], c['rank_order']) not in stored]


def test_json_says_what_the_file_says(store):
    # What one operation took is heard with the next, after coll_tune looked:
    # on a busy machine it may begin the counting of samples anew.
    path = os.path.join(store, 'out.json')
    lacks = [None]
    for attempt in range(5):
        lacks = lacks and not_stored(os.path.join(store, str(attempt)), path)
    check(not lacks, lacks)


def test_a_second_job_begins_with_what_was_stored(store):
    path = os.path.join(store, 'out.json')
    kept = os.path.join(store, 'kept')
    succeeds(*SHORT, store=kept)
    # A time that no run of this machine would give, and another line of text.
    file = only_file(kept)
    row = next(r for r in asked(lines_of(file)) if r[1] == 64)
    with open(file, 'w', encoding='utf-8') as out:
        out.write(f'{HEADER}\nallreduce 64 {row[2]} {row[3]} 0.15 us 9\n'
                  'allreduce 64 no_such_algorithm given 0.11 us 9\n'
                  'allreduce 64 ring given 8e+06 us 9\n')
    succeeds(*SHORT, '-n', 1, '--json', path, store=kept)
    first = results_of(path)['results'][0]
    check((first['algorithm'], first['rank_order']) == row[2:4], first, row)
    ring = [c for c in first['candidates']
             if c['algorithm'] == 'ring' and c['rank_order'] == 'given']
    if row[2:4] != ('ring', 'given'):
        check(len(ring) == 1 and ring[0]['samples'] == 1
              and 7.5e6 < ring[0]['measured_us'] < 8.5e6, ring)


def test_what_is_not_measured_again_is_kept(store):
    succeeds(*SHORT, store=store)
    before = {row[:4] for row in asked(lines_of(only_file(store)))}
    succeeds('allgather', '-b', '64', '-e', '64', '-n', '60', store=store)
    after = {row[:4] for row in asked(lines_of(only_file(store)))}
    check(before < after, before - after)
    check({row[0] for row in after - before} == {'allgather'}, after - before)


def test_a_damaged_file_is_warned_about_and_does_not_stop_the_job(store):
    succeeds(*SHORT, store=store)
    path = only_file(store)
    with open(path, encoding='utf-8') as file:
        whole = file.read()
    lines = whole.count('\n')
    wrong = ['allreduce 64 ring', 'allreduce 64 ring given nan us 3',
             'allreduce 64 ring given -1 us 3', 'x' * 1000]
    for damage, said in (
            ('', [':1: not a file']), ('nonsense\n', [':1: not a file']),
            ('# libcoll learned 9\n', [':1: not a file']),
            (whole[:-3], []), # in the last line
            ('\n'.join([whole.rstrip(), *wrong, '']),
             [f':{lines + 1 + i}: not understood'
              for i in range(len(wrong))])):
        with open(path, 'w', encoding='utf-8') as file:
            file.write(damage)
        _, err = succeeds(*SHORT, store=store)
        for part in said:
            check(path + part in err, damage, part, err)
        check('warn' in err or not said, err)
        lines_of(path) # it is whole again


def test_binary_rubbish_does_not_stop_the_job(store):
    succeeds(*SHORT, store=store)
    path = only_file(store)
    for head in b'', HEADER.encode() + b'\n':
        with open(path, 'wb') as file:
            file.write(head + bytes(range(256)) * 40)
        succeeds(*SHORT, store=store)
        lines_of(path)


def test_what_another_way_took_is_kept_apart(store):
    ways = ({}, {'COLL_INTERFACE': 'lo'}, {'COLL_UCX_TLS': 'tcp'},
            {'COLL_UCX_TLS': 'tcp', 'COLL_UCX_NET_DEVICES': 'lo'})
    for n, way in enumerate(ways, 1):
        succeeds(*SHORT, store=store, **way)
        succeeds(*SHORT, store=store, **way)
        check(len(os.listdir(store)) == n, way, os.listdir(store))


def test_off_stores_nothing(store):
    home = os.path.join(store, 'home')
    out, _ = succeeds(*SHORT, store='off', HOME=home, XDG_CACHE_HOME=home)
    check('Not stored: COLL_STORE is off' in out, out)
    check(not os.path.exists(home), 'a folder')
    for action in '--show', '--forget':
        out, _ = succeeds(action, ranks=1, store='off')
        check('COLL_STORE is off' in out, out)


def test_an_empty_setting_means_the_cache_folder(store):
    for settings, folder in (
            ({'HOME': store, 'XDG_CACHE_HOME': os.path.join(store, 'x')},
             'x/libcoll'),
            ({'HOME': store, 'XDG_CACHE_HOME': 'relative'}, '.cache/libcoll')):
        out, _ = succeeds(*SHORT, **settings)
        path = only_file(os.path.join(store, folder))
        check(path in out, out)
        out, _ = succeeds('--show', ranks=1, **settings)
        check(path in out, out)


def test_a_folder_that_cannot_be_made_is_warned_about(store):
    path = os.path.join(store, 'file')
    with open(path, 'w', encoding='utf-8'):
        pass
    out, err = succeeds(*SHORT, store=os.path.join(path, 'below'))
    check('Not stored: ' in out and path in out, out)
    check(re.search('warn: store: .*' + re.escape(path), err), err)
    check(os.listdir(store) == ['file'], os.listdir(store))


def test_show_lists_what_is_stored(store):
    out, _ = succeeds('--show', ranks=1, store=store)
    check(f'Nothing is stored in {store}.' in out, out)
    succeeds(*SHORT, store=store)
    path = only_file(store)
    rows = lines_of(path)
    out, err = succeeds('--show', ranks=1, store=store)
    check(err == '' and path in out and f'{len(rows)} time' in out, out, err)
    check(re.search(r'^  3 ranks on 1 host \(rank 0: \S+\)$', out, re.M), out)
    for row in rows:
        check(row[2] in out, row, out)
    # the fastest of each length is marked
    marked = [line.split() for line in out.splitlines() if line[:1] == '>']
    marked = [words for words in marked if words[1:3] != ['broadcast', '4']]
    check(len(marked) == 2, out)
    for words in marked:
        least = min((r for r in rows if r[1] == int(words[2])),
                    key=lambda r: r[4])
        check(words[3] == least[2], words, least)
    out, _ = succeeds('--show', 'allgather', ranks=1, store=store)
    check('given' not in out, out)
    with open(path, 'a', encoding='utf-8') as file:
        file.write('oops\n')
    status, out, err = tune('--show', ranks=1, store=store)
    check(status == 1 and rows[0][2] in out, status, out)
    check(err.startswith(f'coll_tune: {path}:{len(rows) + 3}: found "oops"'),
          err)


def links(alpha, rate, hosts='0123456789abcdef'):
    return (f'links {hosts} inside {alpha} us 2 us {rate} GB/s across 30 us 4 us 3 GB/s '
            'in_host 1 us 0.5 us 8 GB/s shared 6 GB/s turn 5 us machine 0 GB/s')


def test_show_tells_the_middle_of_links(store):
    path = os.path.join(store, 'learned-0123456789abcdef.txt')
    lines = [HEADER, links(11, 5), links(19, 4), links(1, 1, '1' * 16), links(17, 7)]
    with open(path, 'w', encoding='utf-8') as file:
        file.write('\n'.join([*lines, 'barrier 1 dissemination given 5 us 3', '']))
    out, err = succeeds('--show', ranks=1, store=store)
    check(not err and 'measured 3 times' in out and '1 time' in out, out, err)
    for row in (r'between hosts +17 us +2 us +5 GB/s',
                r'between groups +30 us +4 us +3 GB/s',
                r"a group's link +6 GB/s", r'in a host +1 us +0.5 us +8 GB/s'):
        check(re.search(row, out), row, out)
    with open(path, 'a', encoding='utf-8') as file:
        file.write(links(11, -5) + '\n')
    status, out, err = tune('--show', ranks=1, store=store)
    check(status == 1 and 'measured 3 times' in out, status, out)
    check(err.startswith(f'coll_tune: {path}:7: found "links 0123456789abcdef inside 11'), err)


def test_in_a_job_only_rank_0_shows(store):
    succeeds(*SHORT, store=store)
    out, err = succeeds('--show', store=store)
    check(out.count(only_file(store)) == 1 and err == '', out, err)


def test_forget_deletes_files_of_libcoll_only(store):
    succeeds(*SHORT, store=store)
    path = only_file(store)
    mine = [os.path.join(store, name) for name in
            ('learned-me.txt', 'learned-0123456789abcdef.txt.bak', 'notes')]
    left = path + '.a1B2c3' # of a job that was killed
    for name in [*mine, left]:
        with open(name, 'w', encoding='utf-8'):
            pass
    out, _ = succeeds('--forget', ranks=1, store=store)
    check(out.splitlines() == [f'deleted {path}', f'deleted {left}'], out)
    check(sorted(os.listdir(store)) == sorted(map(os.path.basename, mine)),
          os.listdir(store))
    out, _ = succeeds('--forget', ranks=1, store=store)
    check(f'Nothing is stored in {store}.' in out, out)


def test_one_rank_has_nothing_to_tune(store):
    path = os.path.join(store, 'out.json')
    out, err = succeeds(*SHORT, '--json', path, ranks=1, store=store)
    check('One rank has nothing to tune' in out and err == '', out, err)
    found = results_of(path)
    check(found['results'] == [] and found['note'] in out, found)
    check(os.listdir(store) == ['out.json'], os.listdir(store))


def test_where_shared_memory_serves_nothing_is_learned(store):
    out, err = succeeds('all', '-e', '4K', store=store, COLL_TRANSPORT='auto')
    check('shared memory serves' in out and err == '', out, err)
    check(os.listdir(store) == [], os.listdir(store))


def test_adapt_off_is_said(store):
    out, _ = succeeds(*SHORT, store=store, COLL_ADAPT='off')
    check('COLL_ADAPT is off' in out, out)
    check(os.listdir(store) == [], os.listdir(store))


def test_all_runs_every_collective_that_learns(store):
    path = os.path.join(store, 'out.json')
    succeeds('all', '-b', '1K', '-e', '1K', '-n', '40', '--json', path,
             store=os.path.join(store, 'kept'))
    found = results_of(path)['results']
    check([row['collective'] for row in found]
          == ['allreduce', 'reduce', 'broadcast', 'reduce_scatter',
              'allgather', 'gather', 'scatter', 'alltoall', 'barrier'], found)
    for row in found:
        check(0 < row['operations'] <= 40, row)
        wanted = {'barrier': 0, 'allreduce': 1024, 'reduce': 1024,
                  'broadcast': 1024}.get(row['collective'], 1020)
        check(row['bytes'] == wanted, row)
        # three ranks gather alike by every algorithm
        check((row['samples'] > 0) == (row['collective'] != 'gather'), row)


def test_the_plot_is_a_png(store):
    path = os.path.join(store, 'out.png')
    succeeds(*SHORT, '--plot', path, store=os.path.join(store, 'kept'))
    with open(path, 'rb') as file:
        check(file.read(8) == b'\x89PNG\r\n\x1a\n')
    check(sorted(os.listdir(store)) == ['kept', 'out.png'], os.listdir(store))


def test_show_draws_what_was_stored_last(store):
    kept, path = os.path.join(store, 'kept'), os.path.join(store, 'out.png')
    succeeds(*SHORT, store=kept)
    last = only_file(kept)
    other = os.path.join(kept, 'learned-0123456789abcdef.txt')
    lines = [HEADER, 'barrier 1 dissemination given 5 us 3']
    with open(other, 'w', encoding='utf-8') as file:
        file.write('\n'.join([*lines, '']))
    os.utime(other, (1, 1))
    sizes = {}
    for words, said in (([], last), (['allreduce'], last), (['barrier'], None)):
        out, err = succeeds('--show', *words, '--plot', path, ranks=1, store=kept)
        check(f'--plot is of {last}, which' in out and err == '', out, err)
        check(('could be drawn' in out) == (said is None), words, out)
        check(os.path.exists(path) == (said is not None), words)
        if said:
            with open(path, 'rb') as file:
                picture = file.read()
            check(picture[:8] == b'\x89PNG\r\n\x1a\n')
            sizes[len(words)] = picture[16:24] # width and height
            os.remove(path)
    check(sizes[0] != sizes[1], 'a panel for each collective', sizes)
    # no panel for what this version does not know
    with open(other, 'a', encoding='utf-8') as file:
        file.write(''.join(f'scan{i} 64 ring given 5 us 3\n' for i in range(40)))
    out, err = succeeds('--show', '--plot', path, ranks=1, store=kept)
    check('could be drawn' in out and 'scan39' in out and err == '', out, err)


def test_limits_end_a_length(store):
    path = os.path.join(store, 'out.json')
    succeeds('allreduce', '-b', '64K', '-e', '64K', '-n', '1000000000',
             '--seconds', '0.05', '--json', path, store='off')
    row = results_of(path)['results'][0]
    check(0 < row['operations'] < 1000000, row)


def test_bad_options_get_one_line_and_status_2(store):
    for args, wanted in (
            (['brodcast'], 'did you mean broadcast?'),
            (['scan'], 'valid are allreduce, reduce, broadcast'),
            (['alreduce'], 'did you mean allreduce?'),
            (['allreduce', 'barrier'], 'valid is one collective'),
            (['-d', 'f33'], 'did you mean f32?'),
            (['-n', '0'], '-n: found "0"'),
            (['--seconds', '0'], '--seconds'), (['-f', '1'], '-f: found "1"'),
            (['-b', '8M', '-e', '4K'], 'more than -e'),
            (['--show', '--forget'], 'valid is one'),
            (['--forget', 'barrier'], 'valid is no collective'),
            (['--show', '--json', 'x'], '--json'),
            (['--forget', '--plot', 'x'], '--plot'),
            (['--iterashuns', '3'], 'did you mean --iterations?'),
            (['--json', '/nowhere/x'], '/nowhere/x: cannot write'),
            (['--plot', store], 'cannot write')):
        status, out, err = tune(*args, ranks=1, store=store)
        check(status == 2 and out == '', args, status, out)
        check(err.count('\n') == 1 and err.startswith('coll_tune: '), err)
        check(wanted in err, args, err)


def in_a_folder(test):
    with tempfile.TemporaryDirectory() as store:
        test(store)


if __name__ == '__main__':
    sys.exit(tap.run([(tap.claim(test), functools.partial(in_a_folder, test))
                      for name, test in list(globals().items())
                      if name.startswith('test_')]))
