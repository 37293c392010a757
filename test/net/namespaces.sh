#!/usr/bin/env bash
# Two hosts as network namespaces with two links between them, one limited to 1 Gbit/s: the faster one is used by default, and each one that
# coll_gpucoll_net_devices names. Prints a table of what was measured. Runs in `make check`, in the build folder; needs root.
set -uo pipefail

skip() {
    echo "SKIP test/net/namespaces.sh: $*"
    exit 77
}

[ "$(id -u)" -eq 0 ] || skip "network namespaces need root"
for tool in ip tc unshare; do
    command -v "$tool" >/dev/null || skip "there is no $tool here"
done
program=$PWD/test/net/net_speed
[ -x "$program" ] || skip "test/net/net_speed has not been built"

# Leaks are for the unit tests to find: the leak sanitizer may crash in a process that has loaded libraries and dropped them again.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0

folder=$(mktemp -d)
one=gpucoll-$$-a
two=gpucoll-$$-b
# shellcheck disable=SC2317
clean_up() {
    local child
    for child in $(jobs -p); do
        kill "$child" 2>/dev/null
    done
    ip netns del "$one" 2>/dev/null
    ip netns del "$two" 2>/dev/null
    rm -rf "$folder"
}
trap clean_up EXIT

# link NAME NUMBER RATE: NAME in both namespaces, each end sending at no more than that (empty: as it can).
link() {
    local end place
    ip link add "$1" netns "$one" type veth peer name "$1" netns "$two" || return 1
    for end in 1 2; do
        place=$one
        [ "$end" = 1 ] || place=$two
        ip -n "$place" address add "10.231.$2.$end/24" dev "$1" &&
            ip -n "$place" link set "$1" up || return 1
        [ -z "$3" ] || tc -n "$place" qdisc add dev "$1" root tbf rate "$3" burst 256kb latency 50ms || return 1
    done
}

set_up() {
    ip netns add "$one" && ip netns add "$two" && ip -n "$one" link set lo up && ip -n "$two" link set lo up &&
        link slow 1 1gbit && link fast 2 ""
}
set_up 2>"$folder/set-up" || skip "no network namespaces with veth and tc here: $(tail -n 1 "$folder/set-up")"

# Interfaces come up a moment after they are told to.
await() {
    local place name
    for place in "$one" "$two"; do
        for name in fast slow; do
            for _ in {1..100}; do
                [ "$(ip netns exec "$place" cat "/sys/class/net/$name/operstate")" != up ] || continue 2
                sleep 0.1
            done
            skip "the link $name does not come up"
        done
    done
}
await

# Bytes that the first host has sent over a link.
sent() {
    ip netns exec "$one" cat "/sys/class/net/$1/statistics/tx_bytes"
}

# end NAMESPACE DEVICES ME PEER: hosts share no memory either.
end() {
    timeout 100 ip netns exec "$1" unshare --ipc --uts "$program" "$2" "$folder" "$3" "$4"
}

status=0
# measure DEVICES LINK: what that choice uses must be LINK.
measure() {
    local devices=$1 wanted=$2 other=fast fast slow on_wanted on_other answer code
    [ "$wanted" = slow ] || other=slow
    rm -f "$folder"/one "$folder"/two
    fast=$(sent fast)
    slow=$(sent slow)
    end "$two" "$devices" two one >"$folder/two.out" 2>&1 &
    answer=$(end "$one" "$devices" one two 2>"$folder/one.err")
    code=$?
    wait $! || code=$?
    [ "$code" -ne 77 ] || skip "$(head -n 1 "$folder/one.err")"
    if [ "$code" -ne 0 ]; then
        echo "FAIL net_devices=$devices: status $code" >&2
        cat "$folder/one.err" "$folder/two.out" >&2
        status=1
        return
    fi
    fast=$(($(sent fast) - fast))
    slow=$(($(sent slow) - slow))
    on_wanted=$slow on_other=$fast
    [ "$wanted" = slow ] || { on_wanted=$fast; on_other=$slow; }
    # shellcheck disable=SC2086
    set -- $answer
    printf '| %-9s | %-4s | %8d | %8d | %7.1f | %6.3f |\n' "$devices" "$wanted" $((fast >> 20)) $((slow >> 20)) "$1" "$2"
    if [ "$on_wanted" -lt "$3" ] || [ "$on_other" -gt $(($3 / 10)) ]; then
        echo "FAIL net_devices=$devices: $on_wanted bytes went over $wanted, $on_other over $other, of $3" >&2
        cat "$folder/one.err" >&2
        status=1
    fi
}

echo '| devices   | uses | MiB fast | MiB slow | 8 B, us | GB/s   |'
echo '|-----------|------|----------|----------|---------|--------|'
measure auto fast
measure fast fast
measure slow slow
exit $status
