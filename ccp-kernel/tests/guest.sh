# SPDX-License-Identifier: GPL-2.0-only
# The test inside of the virtual machine: a sender, a router with a link of 20 ms RTT, a receiver. Prints one
# PASS or FAIL line for each check, and DONE at its end.
#
# The link is slow, and a quarter of it enough: software emulation on a busy host forwards few packets. A flow
# that is stuck at the least window carries less.

LINK_KBIT=8000
ENOUGH_KBIT=$((LINK_KBIT / 4))
AGENT="/bin/anole-ccp --ipc netlink --log-level debug --alg"

check() { # NAME COMMAND...: passes if the command does
    name=$1
    shift
    if "$@"; then echo "PASS $name"; else echo "FAIL $name: $*"; fi
}

at_least() { [ "${1:-0}" -ge "$2" ]; }

eventually() { # COMMAND...: tries for half a minute
    for _ in $(seq 30); do
        "$@" && return 0
        sleep 1
    done
    return 1
}

more_flows_than() { [ "$(grep -c 'flow starts' "$2")" -gt "$1" ]; } # NUMBER LOG

seen() { dmesg | grep -q "$1"; }

uneventually() { # COMMAND...: tries for half a minute
    for _ in $(seq 30); do
        "$@" && return 0
        sleep 1
    done
    return 1
}

seen() { ! dmesg | grep -E "$1"; }

not() { ! "$@"; }

# A flow is paced at 1500 bytes/s.
stalled() { ip netns exec a ss -tin | grep -E 'pacing_rate 12(000bps|(\.0)?Kbps)'; }

# busybox's shell prefers its own applets to programs.
ip() { /bin/ip "$@"; }
tc() { /bin/tc "$@"; }

network() {
    for ns in a r b; do
        ip netns add $ns
        ip -n $ns link set lo up
    done
    ip link add a-r netns a type veth peer name r-a netns r
    ip link add b-r netns b type veth peer name r-b netns r
    ip -n a addr add 10.77.1.1/24 dev a-r
    ip -n r addr add 10.77.1.2/24 dev r-a
    ip -n r addr add 10.77.2.2/24 dev r-b
    ip -n b addr add 10.77.2.1/24 dev b-r
    for ends in "a a-r" "r r-a" "r r-b" "b b-r"; do
        # shellcheck disable=SC2086
        set -- $ends
        ip -n "$1" link set "$2" gso_max_segs 1
        ip -n "$1" link set "$2" up
    done
    ip -n a route add default via 10.77.1.2
    ip -n b route add default via 10.77.2.2
    ip netns exec r sysctl -qw net.ipv4.ip_forward=1
    tc -n r qdisc add dev r-b root netem rate ${LINK_KBIT}kbit delay 10ms limit 60
    tc -n r qdisc add dev r-a root netem delay 10ms
    ip netns exec b iperf3 -s -D >/dev/null
    sleep 1
}

send() { # IPERF3-FLAGS
    ip netns exec a timeout 60 iperf3 -c 10.77.2.1 -C anole_ccp -f k "$@" >/tmp/iperf 2>&1
}

transfer() { # SECONDS: prints what arrived, kbit/s
    send -t "$1"
    if grep -q receiver /tmp/iperf; then
        awk '/receiver/ { rate = int($7) } END { print rate }' /tmp/iperf
    else
        cat /tmp/iperf >&2
        echo 0
    fi
}

start_agent() { # ALGORITHM LOG
    $AGENT "$1" 2>"$2" &
    agent=$!
    eventually grep -q "agent" "$2" || cat "$2"
}

network

insmod /modules/tcp_anole_ccp.ko
check "the module loads" grep -q anole_ccp /proc/sys/net/ipv4/tcp_available_congestion_control

rate=$(transfer 4)
check "without an agent the fallback fills the link: $rate kbit/s" at_least "$rate" $ENOUGH_KBIT

if [ -x /bin/anole-ccp ]; then
    start_agent cubic /tmp/agent1
    rate=$(transfer 5)
    check "under the agent's CUBIC: $rate kbit/s" at_least "$rate" $ENOUGH_KBIT
    check "the agent saw the flow" more_flows_than 0 /tmp/agent1
    check "and had reports of it" eventually grep -q "flow ends.*reports=[1-9]" /tmp/agent1

    (transfer 20 >/tmp/rate) &
    job=$!
    eventually more_flows_than 1 /tmp/agent1
    sleep 2
    kill -9 "$agent"
    check "the agent is given up when it is killed" eventually seen "has not answered"
    start_agent cubic /tmp/agent2
    check "a new agent gets the flow back" eventually more_flows_than 0 /tmp/agent2
    wait "$job"
    check "over the agent's death: $(cat /tmp/rate) kbit/s" at_least "$(cat /tmp/rate)" $ENOUGH_KBIT

    # The least rate that there is, 1500 bytes/s, shows that a spoofed update was heard. The agent's CUBIC
    # leaves the rate alone.
    (transfer 10 >/tmp/rate) &
    job=$!
    sleep 1
    check "attacks as nobody" /bin/attack nobody
    check "nobody has no effect" not stalled
    check "malformed messages as root" /bin/attack root
    check "malformed messages have no effect" not stalled
    wait "$job"
    check "under attack: $(cat /tmp/rate) kbit/s" at_least "$(cat /tmp/rate)" $ENOUGH_KBIT
    (transfer 6 >/tmp/rate) &
    job=$!
    sleep 1
    check "the same as the agent" /bin/attack agent
    check "is heard" stalled
    wait "$job"
    check "the agent survives" kill -0 "$agent"
    check "the agent refuses what does not come from the kernel" grep -q "datagram dropped" /tmp/agent2
    check "the module refuses who may not" seen "without CAP_NET_ADMIN is not heard"
    check "the module refuses a malformed program" seen "refused"

    for _ in 1 2 3 4 5 6 7 8 9 10; do
        send -P 20 -n 400K
    done
    check "200 connections come and go" more_flows_than 200 /tmp/agent2
    kill "$agent"
    wait "$agent"
else
    echo "skipped: there is no agent in the virtual machine"
    check "attacks as nobody" /bin/attack nobody
    check "malformed messages as root" /bin/attack root
fi

sleep 1
check "the module unloads" rmmod tcp_anole_ccp
check "the kernel has no complaint" unseen "BUG:|WARNING:|Oops|Call Trace"
echo DONE
