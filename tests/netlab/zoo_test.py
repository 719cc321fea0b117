#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Hosts with odd networks: a job works, or all its ranks say why not, soon.

    tests/netlab/zoo_test.py BUILD [WORD...]

Speaks TAP. With words, only cases whose name has one of them. Every case is
tried twice: with the address of rank 0's host in COLL_ROOT, and with an id that
lists every address that host has.
"""
import functools
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
import inside  # noqa: E402
from inside import tap  # noqa: E402
import lab as netlab  # noqa: E402
import launch  # noqa: E402

BUILD = os.path.abspath(sys.argv[1])
# A job that works has time; who waits in vain does not need it.
JOIN_SECONDS = {True: 10, False: 2}
MOST_SECONDS = 20
HOSTS = 3
WAYS = ['root', 'id']
CASES = []


def case(works, says='', rails=(), **settings):
    """Marks a test; its name is the claim. works: no rank may fail; else all
    must, and say why. says: a word that some rank's error must have. rails:
    interfaces of rank 0's host that must carry messages, in order: they are found
    once all have met, so it is tried in one way of meeting. settings: variables of
    all ranks.
    """
    def mark(function):
        CASES.extend((f'{tap.claim(function)}, by {way}',
                      functools.partial(try_case, function, works, says,
                                        list(rails), settings, way))
                     for way in WAYS[:1 if rails else None])
        return function
    return mark


def layout(**more):
    return netlab.Layout(hosts=HOSTS, **more)


def a_sentence(text):
    """Whether somebody who reads this knows that the library gave up."""
    return any(len(line.split()) > 3 for line in text.splitlines())


def rails_of(err):
    return re.findall(r'comm: rail (\w+)', err)


def check(ranks, outs, errs, ended, works, says):
    for rank, out, err in zip(ranks, outs, errs):
        print(f'# rank {rank.number}: status {rank.status} after '
              f'{rank.seconds:.1f} s {out.strip()} {" ".join(err.split())[:300]}')
    if not ended:
        raise tap.Wrong(f'not over after {MOST_SECONDS} s')
    if all(rank.status == 0 for rank in ranks):
        if not works:
            raise tap.Wrong('the job works')
        return
    if works:
        raise tap.Wrong('the job failed')
    for rank, err in zip(ranks, errs):
        if rank.status == 0 or rank.status >= 128:
            raise tap.Wrong(f'rank {rank.number} ended with {rank.status}')
        if not a_sentence(err):
            raise tap.Wrong(f'rank {rank.number} does not say why')
    if not any(says in err for err in errs):
        raise tap.Wrong(f'no rank speaks of "{says}"')


def started(make, works, says, settings, way):
    """The rails of a job that did as it should."""
    lab = make()
    program = [os.path.join(BUILD, 'zoo_job')]
    if way == 'id':
        program.append(os.path.join(tempfile.mkdtemp(dir=netlab.FILES), 'id'))
    env = {'COLL_JOIN_SECONDS': str(JOIN_SECONDS[works]),
           'COLL_OP_SECONDS': '60',
           'COLL_LOG': 'comm:info', **settings}
    try:
        found = launch.run(lab, program, MOST_SECONDS, **env)
    finally:
        lab.close()
    check(*found, works, says)
    return rails_of(found[2][0])


def try_case(make, works, says, rails, settings, way):
    """Rails are chosen by rates, which a busy machine may measure wrong."""
    for _ in range(tap.TRIES):
        found = started(make, works, says, settings, way)
        if not rails or found == rails:
            return
    raise tap.Wrong(f'rails {found}, not {rails}')


# --- what hosts have ----------------------------------------------------------


def spare(lab, h, name, *more, up=True):
    """A veth pair to the switch's namespace that no bridge takes up: what goes
    out there is lost."""
    host = lab.name(h)
    netlab.ip(netlab.SWITCH, f'link add {name}.{h} type veth peer name {name} '
              f'netns {host}', f'link set {name}.{h} up')
    netlab.ip(host, *more)
    if up:
        netlab.ip(host, f'link set {name} up')
        netlab.wait_for_carrier(host, name)


def is_down(lab, h):
    spare(lab, h, 'down0', f'address add 10.98.0.{h + 1}/24 dev down0',
          up=False)


def hole(lab, h):
    """Other hosts seem to be there, and do not answer."""
    spare(lab, h, 'hole0', f'address add 10.99.0.{h + 1}/24 dev hole0')
    netlab.ip(lab.name(h), *(
        f'neigh add 10.99.0.{other + 1} lladdr 02:00:00:00:00:01 dev hole0 '
        'nud permanent' for other in range(HOSTS) if other != h))


def deaf(lab, h):
    """Other hosts seem to be on this network, but nobody knows of them."""
    spare(lab, h, 'deaf0', f'address add 10.99.0.{h + 1}/24 dev deaf0')


def same_address(lab, h):
    """As Docker's bridge has on every host."""
    spare(lab, h, 'docker0', 'address add 172.17.0.1/16 dev docker0')


@case(works=True)
def a_plain_network():
    return netlab.Lab(layout())


@case(works=True)
def an_interface_that_is_down_listed_first():
    return netlab.Lab(layout(), is_down)


@case(works=True)
def the_same_host_name_on_all():
    return netlab.Lab(layout(hostnames=('localhost',) * HOSTS))


@case(works=False)
def one_host_with_only_the_loopback():
    lab = netlab.Lab(layout())
    netlab.ip(lab.name(1), 'link set eth0 down')
    return lab


@case(works=False)
def all_hosts_with_only_the_loopback():
    lab = netlab.Lab(layout())
    for h in range(HOSTS):
        netlab.ip(lab.name(h), 'link set eth0 down')
    return lab


@case(works=False)
def one_host_without_even_the_loopback():
    lab = netlab.Lab(layout())
    netlab.ip(lab.name(1), 'link set eth0 down', 'link set lo down')
    return lab


@case(works=True)
def ipv6_addresses_alone():
    return netlab.Lab(layout(ipv6=True))


@case(works=True)
def a_black_hole_listed_first():
    return netlab.Lab(layout(), hole)


@case(works=True)
def a_network_without_others_listed_first():
    return netlab.Lab(layout(), deaf)


@case(works=True)
def a_black_hole_on_one_host():
    return netlab.Lab(layout(),
                      lambda lab, h: h == 1 and hole(lab, h))


@case(works=True)
def the_same_address_on_all_hosts_listed_first():
    return netlab.Lab(layout(), same_address)


@case(works=True, COLL_INTERFACE='eth0')
def a_black_hole_and_the_right_interface_named():
    return netlab.Lab(layout(), hole)


@case(works=True, COLL_INTERFACE='eth0')
def the_same_address_and_the_right_interface_named():
    return netlab.Lab(layout(), same_address)


@case(works=False, COLL_INTERFACE='hole0')
def a_black_hole_named_as_the_interface():
    return netlab.Lab(layout(), hole)


@case(works=False, says='eht0', COLL_INTERFACE='eht0')
def no_such_interface():
    return netlab.Lab(layout())


# --- a second network ---------------------------------------------------------


def beside(spoil, **more):
    """A lab in whose hosts eth0 is all right, and comes first."""
    lab = netlab.Lab(layout(**more))
    for h in range(HOSTS):
        spoil(lab, h)
    return lab


@case(works=True, rails=['eth0', 'eth1'])
def two_rails():
    return netlab.Lab(layout(rails=2, rate=500e6))


@case(works=True, rails=['eth0', 'eth1'])
def two_rails_of_ipv6():
    return netlab.Lab(layout(rails=2, rate=500e6, ipv6=True))


@case(works=True, rails=['eth0', 'eth1'])
def a_second_rail_of_other_names():
    def rename(lab, h):
        netlab.ip(lab.name(h), 'link set eth1 down',
                  f'link set eth1 name ens{h}' if h else 'link set eth1 up',
                  f'link set ens{h} up' if h else 'link set eth1 up')
    return beside(rename, rails=2, rate=500e6)


@case(works=True, rails=['eth1', 'eth0'])
def a_second_rail_that_is_faster():
    return netlab.Lab(layout(rails=2, rate=100e6, rail_rate=(400e6,)))


@case(works=True, rails=['eth1'])
def a_first_rail_too_slow_for_the_whole_stream():
    return netlab.Lab(layout(rails=2, rate=4e6, rail_rate=(400e6,)))


@case(works=True, rails=['eth0'])
def a_second_rail_that_is_far_slower():
    return netlab.Lab(layout(rails=2, rate=400e6, rail_rate=(20e6,)))


@case(works=True, rails=['eth0'])
def a_black_hole_as_the_second_rail():
    return beside(hole)


@case(works=True, rails=['eth0'])
def a_second_rail_without_others():
    return beside(deaf)


@case(works=True, rails=['eth0'])
def a_second_rail_on_one_host():
    return beside(lambda lab, h: h == 1 and deaf(lab, h))


@case(works=True, rails=['eth0'])
def a_second_rail_that_is_down_on_one_host():
    def stop(lab, h):
        if h == 1:
            netlab.ip(lab.name(h), 'link set eth1 down')
    return beside(stop, rails=2, rate=500e6)


@case(works=True, rails=['eth0'])
def a_second_rail_in_two_parts():
    def part(lab, h):
        if h == HOSTS - 1:
            netlab.ip(netlab.SWITCH, f'link set r1port{h} nomaster')
    return beside(part, rails=2, rate=500e6)


@case(works=True, rails=['eth0'])
def the_same_address_on_all_hosts_beside_the_network():
    return beside(same_address)


@case(works=True, rails=['eth0'])
def a_second_rail_of_ipv6_beside_one_of_ipv4():
    def change(lab, h):
        netlab.ip(lab.name(h), 'address flush dev eth1',
                  f'address add fd78::{h + 1:x}/64 dev eth1 nodad')
    return beside(change, rails=2, rate=500e6)


@case(works=True, rails=['eth1', 'eth0'], COLL_INTERFACE='eth1,eth0')
def two_rails_named():
    return netlab.Lab(layout(rails=2, rate=500e6))


@case(works=False, says='at most 4',
      COLL_INTERFACE='eth0,eth1,eth2,eth3,eth4')
def more_interfaces_named_than_there_may_be_rails():
    return netlab.Lab(layout(rails=5))


@case(works=True, rails=['eth0'], COLL_INTERFACE='eth0')
def one_of_two_rails_named():
    return netlab.Lab(layout(rails=2, rate=500e6))


@case(works=False, says='does not reach', COLL_INTERFACE='eth0,hole0')
def a_black_hole_named_as_the_second_rail():
    return beside(hole)


@case(works=False, says='eht1', COLL_INTERFACE='eth0,eht1')
def no_such_second_interface():
    return netlab.Lab(layout(rails=2))


if __name__ == '__main__':
    sys.exit(inside.run(CASES))
