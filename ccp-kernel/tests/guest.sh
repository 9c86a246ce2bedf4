# SPDX-License-Identifier: GPL-2.0-only
# The test inside of the virtual machine: a sender, a router with a 20 Mbit/s link of 20 ms RTT, a receiver.
# Prints one PASS or FAIL line for each check, and DONE at its end.

LINK_KBIT=20000
AGENT="/bin/anole-ccp --ipc netlink --log-level debug --alg"

check() { # NAME COMMAND...: passes if the command does
    name=$1
    shift
    if "$@"; then echo "PASS $name"; else echo "FAIL $name: $*"; fi
}

at_least() { [ "${1:-0}" -ge "$2" ]; }

seen() { dmesg | grep -q "$1"; }

unseen() { ! dmesg | grep -E "$1"; }

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
    ip netns exec r sysctl -q net.ipv4.ip_forward=1
    tc -n r qdisc add dev r-b root netem rate ${LINK_KBIT}kbit delay 10ms limit 60
    tc -n r qdisc add dev r-a root netem delay 10ms
    ip netns exec b iperf3 -s -D >/dev/null
    sleep 1
}

send() { # IPERF3-FLAGS
    ip netns exec a timeout 30 iperf3 -c 10.77.2.1 -C anole_ccp -f k "$@" >/tmp/iperf 2>&1
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
    sleep 1
}

network

insmod /modules/tcp_anole_ccp.ko
check "the module loads" grep -q anole_ccp /proc/sys/net/ipv4/tcp_available_congestion_control

rate=$(transfer 4)
check "without an agent the fallback fills the link: $rate kbit/s" at_least "$rate" $((LINK_KBIT / 2))

if [ -x /bin/anole-ccp ]; then
    start_agent cubic /tmp/agent1
    rate=$(transfer 5)
    check "under the agent's CUBIC: $rate kbit/s" at_least "$rate" $((LINK_KBIT / 2))
    check "the agent saw the flows" grep -q "flow starts" /tmp/agent1

    (transfer 9 >/tmp/rate) &
    job=$!
    sleep 3
    kill -9 "$agent"
    sleep 2
    check "the agent is given up when it is killed" seen "has not answered"
    start_agent cubic /tmp/agent2
    wait "$job"
    check "over the agent's death: $(cat /tmp/rate) kbit/s" at_least "$(cat /tmp/rate)" $((LINK_KBIT / 2))
    check "a new agent gets the flow back" grep -q "flow starts" /tmp/agent2

    (transfer 6 >/tmp/rate) &
    job=$!
    sleep 1
    check "attacks as nobody" /bin/attack nobody
    check "malformed messages as root" /bin/attack root
    wait "$job"
    check "under attack: $(cat /tmp/rate) kbit/s" at_least "$(cat /tmp/rate)" $((LINK_KBIT / 2))
    check "the agent survives" kill -0 "$agent"
    check "the agent refuses what does not come from the kernel" grep -q "datagram dropped" /tmp/agent2
    check "the module refuses who may not" seen "without CAP_NET_ADMIN is not heard"
    check "the module refuses a malformed program" seen "refused"

    for _ in 1 2 3 4 5 6 7 8 9 10; do
        send -P 20 -n 400K
    done
    check "200 connections come and go" at_least "$(grep -c 'flow starts' /tmp/agent2)" 200
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
