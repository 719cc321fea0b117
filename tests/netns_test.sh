#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Four hosts, as far as one machine can be four: network namespaces joined by
# a bridge, one rank in each, so that all data go through UCX over TCP.
#
#   tests/netns_test.sh BUILD
#
# Speaks TAP. Needs root and ip; else says why and skips all.
# Namespaces are global to the machine: names carry this process's id, and
# only those made here are deleted.
set -u

build=$(cd "${1:?usage: tests/netns_test.sh BUILD}" && pwd) || exit 2
skip_all() { echo "1..0 # SKIP $*" && exit 0; }
((EUID == 0)) || skip_all 'network namespaces need root'
command -v ip >/dev/null || skip_all 'no ip here (Debian: iproute2)'

n=4
net=10.$((200 + RANDOM % 50)).$((RANDOM % 250))
key=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
temp=$(mktemp -d) || exit 1
made=()
pids=()

clean_up() {
    local pid host
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null
    done
    for host in "${made[@]}"; do
        ip netns delete "$host"
    done
    rm -rf "$temp"
}
trap clean_up EXIT
trap 'exit 1' INT TERM HUP

host() { echo "coll$$-$1"; }

make_host() { # NAME
    ip netns add "$1" && made+=("$1") && ip -n "$1" link set lo up
}

# The bridge lives in a namespace too, so that nothing is added to the host's.
make_hosts() {
    local r switch
    switch=$(host switch)
    make_host "$switch" && ip -n "$switch" link add bridge type bridge &&
        ip -n "$switch" link set bridge up || return
    for ((r = 0; r < n; r++)); do
        make_host "$(host $r)" &&
            ip -n "$switch" link add "port$r" type veth \
                peer name eth0 netns "$(host $r)" &&
            ip -n "$switch" link set "port$r" master bridge up &&
            ip -n "$(host $r)" address add "$net.$((r + 1))/24" dev eth0 &&
            ip -n "$(host $r)" link set eth0 up || return
    done
}

# start RANK PORT COMMAND...: one rank in the background, on a host with a name
# of its own, output to files.
start() {
    local r=$1 port=$2
    shift 2
    # shellcheck disable=SC2016 # the inner bash's $@
    ip netns exec "$(host "$r")" unshare --uts bash -c \
        'echo "$0" >/proc/sys/kernel/hostname && exec "$@"' "host$r" \
        env COLL_RANK="$r" COLL_NRANKS=$n \
        COLL_ROOT="$net.1:$port" COLL_JOB_KEY="$key" COLL_JOIN_SECONDS=20 \
        COLL_OP_SECONDS=30 "$@" >"$temp/out.$r" 2>"$temp/err.$r" &
    pids[r]=$!
}

# job PORT ARGUMENTS...: coll_bench on all hosts; rank 0's JSON in out.json.
job() {
    local port=$1 r bad=0
    shift
    rm -f "$temp/out.json"
    for ((r = 0; r < n; r++)); do
        start $r "$port" timeout -k 1 60 "$build/coll_bench" "$@" -c \
            --json "$temp/out.json"
    done
    for ((r = 0; r < n; r++)); do
        wait "${pids[r]}" || bad=1
    done
    pids=()
    ((!bad)) && right "$temp/out.json"
}

# Results there are, none wrong, and all ranks on hosts of their own.
right() {
    python3 - "$1" $n <<'END'
import json, sys
report = json.load(open(sys.argv[1], encoding="utf-8"))
bad = [r for r in report["results"] if r["wrong"] != 0]
print(f'# {len(report["results"])} results, {report["nhosts"]} hosts')
for r in bad:
    print(f'# {r["algorithm"]} {r["bytes"]} bytes: {r["wrong"]} wrong')
sys.exit(bool(bad) or not report["results"]
         or report["nhosts"] != int(sys.argv[2]))
END
}

ntests=0 nfailed=0
result() { # STATUS WORDS
    local r
    ntests=$((ntests + 1))
    if (($1 == 0)); then
        echo "ok $ntests - $2"
        return
    fi
    nfailed=$((nfailed + 1))
    echo "not ok $ntests - $2"
    for ((r = 0; r < n; r++)); do
        tail -n 5 "$temp/err.$r" | sed "s/^/# [$r] /"
    done
}

alive() { kill -0 "$@" 2>/dev/null; }

# One rank is killed while all work: the others end within 5 s, naming it.
killed_rank() {
    local port=$1 victim=2 r status bad=0 tenths
    for ((r = 0; r < n; r++)); do
        start $r "$port" "$build/coll_bench" allreduce -b 1M -e 1M -n 1000000
    done
    sleep 3 # all have joined by now and are at work
    alive "${pids[@]}" || bad=1
    kill -KILL "${pids[victim]}"
    for ((r = 0, tenths = 0; r < n && tenths < 50; )); do
        if ((r == victim)) || ! alive "${pids[r]}"; then
            r=$((r + 1))
        else
            tenths=$((tenths + 1)) && sleep 0.1
        fi
    done
    kill "${pids[@]}" 2>/dev/null
    for ((r = 0; r < n; r++)); do
        wait "${pids[r]}" 2>/dev/null
        status=$?
        ((r == victim)) && continue
        if ((status == 0 || status > 128)); then
            echo "# rank $r ended with $status" && bad=1
        fi
        grep -q "rank $victim" "$temp/err.$r" ||
            { echo "# rank $r does not name rank $victim" && bad=1; }
    done
    pids=()
    return $bad
}

if ! make_hosts >"$temp/log" 2>&1; then
    skip_all "no network namespaces here: $(tail -n 1 "$temp/log")"
fi
echo '1..5'
small='allreduce -b 8 -e 256K -f 32 -n 5 -w 1'
# shellcheck disable=SC2086 # words
{
    job 7001 $small --algo all
    result $? 'every algorithm is right between four hosts'
    job 7002 $small -d bf16 -o max
    result $? 'bf16 max is right between four hosts'
    job 7003 $small -d i32 -o bxor --in-place
    result $? 'i32 bxor in place is right between four hosts'
    job 7004 $small -d f64 -o avg -e 8M
    result $? 'f64 avg is right up to 8 MiB'
    killed_rank 7005
    result $? 'a killed rank ends the others within 5 s, by name'
}
((nfailed == 0))
