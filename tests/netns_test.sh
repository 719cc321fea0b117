#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Several hosts, as far as one machine can be several: network namespaces, so
# that data go through UCX over TCP. netlab/ makes them.
#
#   tests/netns_test.sh BUILD
#
# Speaks TAP. Where there can be no such network it says why and skips all.
set -u

build=$(cd "${1:?usage: tests/netns_test.sh BUILD}" && pwd) || exit 2
here=$(cd "$(dirname "$0")" && pwd)
temp=$(mktemp -d) || exit 1
trap 'rm -rf "$temp"' EXIT
trap 'exit 1' INT TERM HUP

# netlab WORDS...: output to files, its own words to log.
netlab() {
    rm -f "$temp"/{out,err}.* "$temp"/*.json
    "$here/netlab/netlab" --delay-switch "$build/delay_switch" --timeout 60 \
        --output "$temp" --report "$temp/report.json" --env COLL_JOIN_SECONDS=20 \
        --env COLL_OP_SECONDS=30 "$@" >"$temp/log" 2>&1
}

# job NHOSTS LAYOUT... -- ARGUMENTS...: coll_bench on all hosts.
job() {
    local nhosts=$1 layout=()
    shift
    while [[ $1 != -- ]]; do
        layout+=("$1") && shift
    done
    shift
    netlab --hosts "$nhosts" "${layout[@]}" -- "$build/coll_bench" "$@" -c \
        --json "$temp/result.json" && right "$temp/result.json" "$nhosts"
}

# Results there are, none wrong, and as many hosts as were asked for.
right() {
    python3 - "$@" <<'END'
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
    ntests=$((ntests + 1))
    if (($1 == 0)); then
        echo "ok $ntests - $2"
        return
    fi
    nfailed=$((nfailed + 1))
    echo "not ok $ntests - $2"
    tail -n 5 "$temp"/log "$temp"/err.* | sed 's/^/# /'
}

# One rank is killed while all work: the others end within 5 s, naming it.
killed_rank() {
    # shellcheck disable=SC2016 # the ranks' own variables
    netlab -- bash -c \
        '((COLL_RANK == 2)) && exec timeout -s KILL 3 "$@"; exec "$@"' rank \
        "$build/coll_bench" allreduce -b 1M -e 1M -n 1000000
    python3 - "$temp" 2 <<'END'
import json, pathlib, sys
folder, victim = pathlib.Path(sys.argv[1]), int(sys.argv[2])
ranks = json.loads((folder / "report.json").read_text())
bad, died = [], ranks[victim]["seconds"]
if ranks[victim]["status"] != 137:
    bad.append(f'rank {victim} ended with {ranks[victim]["status"]}')
for rank in ranks:
    r, status, seconds = rank["rank"], rank["status"], rank["seconds"]
    if r == victim:
        continue
    if status == 0 or status > 128:
        bad.append(f"rank {r} ended with {status}")
    if not 2 <= seconds < died + 5:
        bad.append(f"rank {r} ended after {seconds:.1f} s, not {died:.1f}")
    if f"rank {victim}" not in (folder / f"err.{r}").read_text():
        bad.append(f"rank {r} does not name rank {victim}")
print("".join(f"# {line}\n" for line in bad), end="")
sys.exit(bool(bad))
END
}

# Also from a rank that is not the first of its host.
of_parts() {
    local kind
    for kind in 'gather -r 3' 'scatter -r 3' alltoall; do
        # shellcheck disable=SC2086 # words
        job 3 --ranks-per-host 2 -- $kind --algo all -b 48 -e 384K -f 64 -n 5 \
            -w 1 || return
    done
}

# Bytes over the trunk in both directions while a vector is broadcast N times.
trunk_bytes() { # N
    netlab --groups 2 --rate 1Gbit --trunk-rate 250Mbit \
        --counters "$temp/counters.json" --env COLL_CALIBRATE=off -- \
        "$build/coll_bench" broadcast \
        --algo binomial_tree -b 1M -e 1M -n "$1" -w 1 >/dev/null &&
        python3 - "$temp/counters.json" <<'END'
import json, sys
trunk, = json.load(open(sys.argv[1], encoding="utf-8"))["trunks"]
print(trunk["forth"]["bytes"], trunk["back"]["bytes"])
END
}

# Once for each vector in the direction away from the root, and next to nothing
# back.
broadcast_crosses_once() {
    local few many forth back few_forth few_back
    few=$(trunk_bytes 1) && many=$(trunk_bytes 21) || return
    read -r few_forth few_back <<<"$few"
    read -r forth back <<<"$many"
    forth=$(((forth - few_forth) / 20)) back=$(((back - few_back) / 20))
    echo "# 1 MiB: $forth bytes forth, $back back"
    ((forth >= 1 << 20 && forth < (1 << 20) * 12 / 10 && back < 1 << 17))
}

netlab --hosts 2 -- true
case $? in
0) ;;
77) echo "1..0 # SKIP $(tail -n 1 "$temp/log")" && exit 0 ;;
*) sed 's/^/# /' "$temp/log" && exit 1 ;;
esac
echo '1..10'
small='allreduce -b 8 -e 256K -f 32 -n 5 -w 1'
# shellcheck disable=SC2086 # words
{
    job 4 -- $small --algo all
    result $? 'every algorithm is right between four hosts'
    job 4 -- $small -d bf16 -o max
    result $? 'bf16 max is right between four hosts'
    job 4 -- $small -d i32 -o bxor --in-place
    result $? 'i32 bxor in place is right between four hosts'
    job 4 -- $small -d f64 -o avg -e 8M
    result $? 'f64 avg is right up to 8 MiB'
    killed_rank
    result $? 'a killed rank ends the others within 5 s, by name'
    job 4 --groups 2 --rate 1Gbit --trunk-rate 250Mbit -- $small --algo all
    result $? 'every algorithm is right over a narrow trunk'
    if [[ -e /dev/net/tun ]]; then
        job 4 --groups 2 --rate 1Gbit --trunk-rate 250Mbit --delay 100us \
            --trunk-delay 100us -- $small --algo all
        result $? 'every algorithm is right over links with delays'
    else
        result 0 'every algorithm is right over links with delays # SKIP no tun'
    fi
    job 2 --ranks-per-host 2 -- $small --algo all &&
        job 2 --ranks-per-host 2 --place round_robin -- $small --algo all
    result $? 'every algorithm is right on two hosts of two ranks'
    of_parts
    result $? 'every gather, scatter and alltoall is right on three hosts of two'
    broadcast_crosses_once
    result $? 'a broadcast crosses the trunk once'
}
((nfailed == 0))
