# SPDX-License-Identifier: GPL-2.0-only
# The test inside of the virtual machine: a sender, a router with a link of 60 ms RTT, a receiver. Prints one
# PASS or FAIL line for each check, and DONE at its end. What depends on the host's speed is no check but a FIGURE:
# what, expected, seen, met or missed, with tabs between them.
#
# The link is slow: software emulation forwards few packets. A quarter of it is expected; a flow that is stuck at the
# least window or rate carries less.

LINK_KBIT=4000
ENOUGH_KBIT=1000
AGENT="/bin/anole-ccp --log-level debug --ipc"
alg=cubic

# busybox's shell prefers its own applets to programs.
ip() { /bin/ip "$@"; }
tc() { /bin/tc "$@"; }

check() { # NAME COMMAND...: passes if the command does
    name=$1
    shift
    if "$@"; then echo "PASS $name"; else echo "FAIL $name: $*"; fi
}

eventually() { # COMMAND...: tries for a minute
    for _ in $(seq 60); do
        "$@" && return 0
        sleep 1
    done
    return 1
}

not() { ! "$@"; }

figure() { # WHAT LOWEST HIGHEST SEEN
    verdict=missed
    if [ "${4:-0}" -ge "$2" ] && [ "${4:-0}" -le "$3" ]; then verdict=met; fi
    printf 'FIGURE %s\t%s to %s\t%s\t%s\n' "$1" "$2" "$3" "${4:-0}" $verdict
}

carried() { # WHAT: something arrived in the last transfer, $rate kbit/s
    check "$1: data arrive" [ "${rate:-0}" -gt 0 ]
    figure "$1: kbit/s" $ENOUGH_KBIT $LINK_KBIT "${rate:-0}"
}
logged() { dmesg | grep -E "$1" >/tmp/logged; }
times_given_up() { dmesg | grep -c "has not answered"; }
given_up_more_than() { [ "$(times_given_up)" -gt "$1" ]; } # TIMES
more_flows_than() { [ "$(grep -c 'flow begins' "$2")" -gt "$1" ]; } # NUMBER LOG

# A flow is paced at 1500 bytes/s, the least rate that there is.
stalled() { ip netns exec a ss -tin | grep -qE 'pacing_rate 12(000bps|(\.0)?Kbps)'; }

kernel_is() { # MAJOR MINOR: that or later
    uname -r | awk -F. -v major="$1" -v minor="$2" '{ exit !($1 > major || ($1 == major && $2 + 0 >= minor)) }'
}

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
    tc -n r qdisc add dev r-b root netem rate ${LINK_KBIT}kbit delay 30ms limit 60
    tc -n r qdisc add dev r-a root netem delay 30ms
    ip -n a link set lo mtu 1500
    ip netns exec b iperf3 -s -D >/dev/null
    ip netns exec b /bin/probe sink &
    sleep 1
}

control=anole_ccp
send() { # IPERF3-FLAGS
    ip netns exec a timeout 90 iperf3 -c 10.77.2.1 -C $control -f k "$@" >/tmp/iperf 2>&1
}

transfer() { # SECONDS: leaves in $rate what arrived, kbit/s
    send -t "$1"
    rate=$(awk '/receiver/ { rate = int($7) } END { print rate + 0 }' /tmp/iperf)
    [ "$rate" -gt 0 ] || cat /tmp/iperf
}

begin_transfer() { # SECONDS; wait_for_transfer leaves its $rate
    (
        transfer "$1"
        echo "$rate" >/tmp/rate
    ) &
    job=$!
}

wait_for_transfer() {
    wait "$job"
    rate=$(cat /tmp/rate)
}

start_agent() { # IPC LOG FLAGS...
    ipc=$1
    log=$2
    shift 2
    $AGENT "$ipc" --alg $alg "$@" 2>"$log" &
    agent=$!
    eventually grep -q "agent starts" "$log" || cat "$log"
}

# Where TCP and its congestion control have to agree. Over the loopback of a namespace with packets of a usual size, and over
# the link, whose queue keeps recoveries long.
probe() { # ARGUMENTS OF probe
    ip netns exec a /bin/probe "$@"
}

without_an_agent() { # NAME: what a fallback takes over
    check "$1: chosen in mid-connection, $control leaves the threshold" probe chosen $control
    tc -n r qdisc change dev r-b root netem rate ${LINK_KBIT}kbit delay 30ms limit 40
    check "$1: chosen in a recovery, $control goes on with it" probe reduction $control 10.77.2.1
    tc -n r qdisc change dev r-b root netem rate ${LINK_KBIT}kbit delay 30ms limit 60
}

with_a_held_window() {
    alg=hold
    start_agent netlink /tmp/agent9 --param window_packets=100
    alg=cubic
    check "a timeout that lost nothing is undone without a command" probe spurious $control 100 $agent
    kill "$agent"
    wait "$agent"
}

# Until end_probe. No function is called: it would be a process between.
begin_probe() { # NAMESPACE ARGUMENTS of probe
    where=$1
    shift
    /bin/ip netns exec "$where" /bin/probe "$@" &
    probe=$!
}

end_probe() {
    kill "$probe"
    wait "$probe"
}

# A connection without a flow asks again four times a second. One that the agent answers too late begins again, with the
# id that it has.
flows_begun() { sed -n 's/.*flow begins flow=\([0-9]*\) .*/\1/p' "$1" | sort -u | wc -l; } # LOG
at_least_flows() { [ "$(flows_begun "$2")" -ge "$1" ]; }                                      # NUMBER LOG
has_flows() { # NUMBER LOG: so many, and no more
    eventually at_least_flows "$1" "$2" && sleep 2 && [ "$(flows_begun "$2")" -eq "$1" ] && return
    grep "flow " "$2"
    return 1
}

with_a_quota() {
    insmod /modules/tcp_anole_ccp.ko flows_per_user=5
    start_agent netlink /tmp/agent10
    begin_probe a crowd $control 8 65534
    check "a user has no more flows than its share" has_flows 5 /tmp/agent10
    hoard=$probe
    begin_probe b crowd $control 1 65534
    check "nor in another namespace" has_flows 5 /tmp/agent10
    end_probe
    begin_probe a crowd $control 1 65533
    check "a namespace has no more flows than its share" has_flows 5 /tmp/agent10
    end_probe
    begin_probe b crowd $control 1 65533
    check "others have theirs" has_flows 6 /tmp/agent10
    end_probe
    probe=$hoard
    end_probe
    begin_probe a crowd $control 8 65534
    check "a share is given back" has_flows 11 /tmp/agent10
    end_probe
    kill "$agent"
    wait "$agent"
    check "the module unloads after the crowd" eventually rmmod tcp_anole_ccp
}

announced() { # SECONDS: leaves in $calls how often a connection was announced
    echo 0 >$tracing/tracing_on
    echo >$tracing/trace
    echo 1 >$tracing/tracing_on
    sleep "$1"
    echo 0 >$tracing/tracing_on
    calls=$(grep -c "ccp_send_create" $tracing/trace)
}

announced_once() { # in the time that an agent has
    for _ in 1 2 3 4 5; do
        echo >$tracing/trace
        echo 1 >$tracing/tracing_on
        # Where this machine was late, another time.
        probe pause $control && break
    done
    echo 0 >$tracing/tracing_on
    [ "$(grep -c ccp_send_create $tracing/trace)" -eq 1 ]
}

# Whoever listens in another namespace hears nothing: connections are announced four times a second in all, not each.
with_a_listener_elsewhere() {
    tracing=/sys/kernel/tracing
    [ -e $tracing/trace ] || mount -t tracefs tracefs $tracing
    insmod /modules/tcp_anole_ccp.ko
    echo ccp_send_create >$tracing/set_ftrace_filter
    echo function >$tracing/current_tracer
    begin_probe a listens
    listener=$probe
    begin_probe a crowd $control 16 65534
    sleep 2
    announced 5
    end_probe
    probe=$listener
    end_probe
    echo "announced $calls times"
    check "a listener elsewhere is noticed" [ "$calls" -gt 0 ]
    check "it does not have every connection announced" [ "$calls" -lt 60 ]
    # One that hears, and does not answer.
    /bin/probe listens &
    probe=$!
    check "chosen after a pause, $control is announced once" announced_once
    end_probe
    echo nop >$tracing/current_tracer
    check "the module unloads after the listener" eventually rmmod tcp_anole_ccp
}

with_an_agent() {
    start_agent netlink /tmp/agent1
    transfer 6
    carried "under the agent's CUBIC"
    check "the agent saw the flow" eventually more_flows_than 0 /tmp/agent1
    check "and had reports of it" eventually grep -q "flow ends.*reports=[1-9]" /tmp/agent1

    control=anole_reno
    send -t 3 -c ::ffff:10.77.2.1
    control=anole_ccp
    check "a name of its own asks for an algorithm" eventually grep -q "flow begins.*algorithm=.*reno" /tmp/agent1
    check "IPv4 over an IPv6 socket has its addresses" eventually grep -q "flow begins.*reno.*peer=.*10.77.2.1" /tmp/agent1

    # Marked where they would be lost, for an algorithm whose program reads no ECN: a window that does not shrink fills the
    # queue, and what does not fit is sent again.
    for ns in a b; do ip netns exec $ns sysctl -qw net.ipv4.tcp_ecn=1; done
    # The queue holds more than slow start sends before the first mark.
    tc -n r qdisc change dev r-b root netem rate ${LINK_KBIT}kbit delay 30ms limit 200 loss 3% ecn
    transfer 8
    carried "under ECN marks"
    figure "under ECN marks: packets sent again" 0 3 "$(awk '/sender/ { again = $(NF - 1) } END { print again + 0 }' /tmp/iperf)"
    tc -n r qdisc change dev r-b root netem rate ${LINK_KBIT}kbit delay 30ms limit 60 loss 0%
    for ns in a b; do ip netns exec $ns sysctl -qw net.ipv4.tcp_ecn=2; done

    begin_transfer 45
    eventually more_flows_than 3 /tmp/agent1
    sleep 3
    given_up=$(times_given_up)
    figure "times that a living agent was given up" 0 0 "$given_up"
    kill -9 "$agent"
    check "the agent is given up when it is killed" eventually given_up_more_than "$given_up"
    given_up=$(times_given_up)
    /bin/attack silent 5
    check "one that never answers a report is not given up while it hears them" not given_up_more_than "$given_up"
    check "it is when it has ended" eventually given_up_more_than "$given_up"
    start_agent netlink /tmp/agent2
    check "a new agent gets the flow back" eventually more_flows_than 0 /tmp/agent2
    wait_for_transfer
    carried "over the agent's death"

    # The agent's CUBIC leaves the rate alone, so a spoofed one would stay.
    begin_transfer 20
    eventually more_flows_than 1 /tmp/agent2
    check "attacks as nobody" /bin/attack nobody
    check "they have no effect" not stalled
    check "attacks as root over a socket that nobody has opened" /bin/attack lent
    check "they have no effect" not stalled
    check "malformed messages as root" /bin/attack root
    check "they have no effect" not stalled
    wait_for_transfer
    carried "under attack"

    begin_transfer 10
    eventually more_flows_than 2 /tmp/agent2
    /bin/attack agent &
    check "the same messages from root are heard" eventually stalled
    wait_for_transfer
    check "the agent survives" kill -0 "$agent"
    check "the agent refuses what does not come from the kernel" eventually grep -q "datagram dropped" /tmp/agent2
    check "the module refuses who may not" eventually logged "without CAP_NET_ADMIN is not heard"
    check "the module refuses a malformed program" eventually logged "program 7 refused"

    # Few bytes each: the link is slow.
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        send -P 20 -l 20K -n 20K
    done
    check "200 connections come and go" eventually more_flows_than 200 /tmp/agent2
    kill "$agent"
    wait "$agent"
}

# A packet every tenth of a second until the agent has gone and another, which answers nothing, is there; a pause; some more.
with_a_pause() {
    insmod /modules/tcp_anole_ccp.ko
    ip netns exec a sysctl -qw net.ipv4.tcp_congestion_control=$control
    start_agent netlink /tmp/agent11
    given_up=$(times_given_up)
    {
        while [ ! -e /tmp/pause ]; do echo data && sleep 0.1; done
        # Half as long again as such an agent may be silent.
        sleep 24
        for _ in $(seq 20); do echo data && sleep 0.1; done
    } | ip netns exec a nc 10.77.2.1 5300 &
    job=$!
    eventually more_flows_than 0 /tmp/agent11
    kill -9 "$agent"
    eventually given_up_more_than "$given_up"
    given_up=$(times_given_up)
    /bin/attack silent 60 &
    silent=$!
    sleep 2
    touch /tmp/pause
    wait "$job"
    check "a pause of the application is no silence of the agent" not given_up_more_than "$given_up"
    kill "$silent"
    ip netns exec a sysctl -qw net.ipv4.tcp_congestion_control=cubic
    check "the module unloads after the pause" eventually rmmod tcp_anole_ccp
}

registered() { grep -q anole_ccp /proc/sys/net/ipv4/tcp_available_congestion_control; }

# The eBPF datapath needs no module: does this kernel's verifier take it, and does it carry a flow?
with_bpf() {
    start_agent bpf /tmp/agent3
    transfer 6
    carried "--ipc bpf, under the agent's CUBIC"
    check "--ipc bpf: the agent saw the flow" eventually more_flows_than 0 /tmp/agent3
    check "--ipc bpf: and had reports of it" eventually grep -q "flow ends.*reports=[1-9]" /tmp/agent3
    begin_transfer 12
    eventually more_flows_than 1 /tmp/agent3
    sleep 2
    kill -9 "$agent"
    wait_for_transfer
    carried "--ipc bpf: over the agent's death"

    # Before Linux 6.4 a registration outlives who made it.
    registered && echo "a killed agent's registration is left"
    start_agent bpf /tmp/agent4
    transfer 3
    check "--ipc bpf: it does not keep the next agent away" eventually more_flows_than 0 /tmp/agent4
    # While it hangs, the fallback governs.
    kill -STOP "$agent"
    sleep 1
    without_an_agent "--ipc bpf"
    kill -CONT "$agent"
    kill "$agent"
    wait "$agent"
    check "--ipc bpf: an agent that pins nothing leaves nothing" eventually not registered
}

# The registration is pinned and outlives its agent.
with_bpf_fs() {
    # As mount(8) has it without a mode: everybody may write there.
    mount -t bpf bpf /sys/fs/bpf
    chmod 1777 /sys/fs/bpf
    mkdir -p /tmp/victim/folder
    touch /tmp/victim/folder/file
    for what in folder link; do
        check "nobody puts a $what where the pins go" /bin/attack plant-$what /sys/fs/bpf/anole_ccp /tmp/victim
        start_agent bpf /tmp/agent8 --bpf-fs /sys/fs/bpf
        check "--ipc bpf: it does not keep the agent away" eventually grep -q "registered and stays so" /tmp/agent8
        check "--ipc bpf: the pins are root's alone" [ "$(stat -c '%u %a' /sys/fs/bpf/anole_ccp)" = "0 700" ]
        kill "$agent"
        wait "$agent"
        rm -r /sys/fs/bpf/anole_ccp
    done
    check "--ipc bpf: nothing is removed where the links lead" [ -e /tmp/victim/folder/file ]
    start_agent bpf /tmp/agent5 --bpf-fs /sys/fs/bpf
    begin_transfer 20
    eventually more_flows_than 0 /tmp/agent5
    sleep 2
    pins=$(find /sys/fs/bpf/anole_ccp -type f)
    # Where everybody may call bpf(), the pins' own modes have to hold.
    echo 0 >/proc/sys/kernel/unprivileged_bpf_disabled
    # shellcheck disable=SC2086 # a list of words
    check "--ipc bpf: nobody may open its maps or remove its pins" /bin/attack maps-nobody $pins
    # shellcheck disable=SC2086
    check "--ipc bpf: root may" /bin/attack maps-root $pins
    kill -9 "$agent"
    sleep 1
    check "--ipc bpf: pinned, it outlives its agent" registered
    start_agent bpf /tmp/agent6 --bpf-fs /sys/fs/bpf
    check "--ipc bpf: a new agent takes it over" eventually grep -q "registered by an earlier agent" /tmp/agent6
    check "--ipc bpf: a new agent gets the flow back" eventually more_flows_than 0 /tmp/agent6
    wait_for_transfer
    carried "--ipc bpf: over the agent's death, pinned"
    kill "$agent"
    wait "$agent"
    rm -r /sys/fs/bpf/anole_ccp
    start_agent bpf /tmp/agent7 --bpf-fs /sys/fs/bpf
    check "--ipc bpf: without its pins it is registered anew" eventually grep -q "registered and stays so" /tmp/agent7
    kill "$agent"
    wait "$agent"
    cat /tmp/agent[345678] | grep -e WARN -e ERROR
}

# The kernel's CUBIC over the link that a simulator had: a rate, 50 ms, a queue of two BDP in packets of 1500 bytes. By
# netem, which keeps its rate when software emulation is late to wake it; a token bucket does not.
cross_check() { # KBIT/S KBIT/S-EXPECTED MS-EXPECTED
    tc -n r qdisc replace dev r-b root netem rate "$1kbit" limit $(($1 * 50 / 8 * 2 / 1500))
    tc -n r qdisc replace dev r-a root netem delay 50ms limit 1000
    ip netns exec a timeout 90 iperf3 -c 10.77.2.1 -C cubic -J -t 30 >/tmp/iperf 2>&1
    rate=$(awk '/"sum_received"/ { sum = 1 } sum && /bits_per_second/ { print int($2 / 1000); exit }' /tmp/iperf)
    rtt=$(awk '/"mean_rtt"/ { print int($2 / 1000); exit }' /tmp/iperf)
    figure "CUBIC over netem at $1 kbit/s, the simulator's ± 10 %: kbit/s" $(($2 * 9 / 10)) $(($2 * 11 / 10)) "$rate"
    figure "CUBIC over netem, the simulator's ± 10 %: RTT in ms" $(($3 * 9 / 10)) $(($3 * 11 / 10)) "$rtt"
}

if [ -x /bin/bpf-loopback ] && kernel_is 6 1; then
    ip link set lo up
    tests=
    [ ! -e /bpf-briefly ] || tests=a_flow
    # shellcheck disable=SC2086 # none or one
    timeout 900 /bin/bpf-loopback $tests --test-threads 1 --nocapture >/tmp/loopback 2>&1
    check "the verifier takes the eBPF datapath, and a flow obeys it" grep -q "^test result: ok. [1-9]" /tmp/loopback
    check "nothing of that was skipped" not grep "^skipped" /tmp/loopback
    if grep -q "^test result: ok. [1-9]" /tmp/loopback; then grep "^test" /tmp/loopback; else cat /tmp/loopback; fi
fi
network
check "a name that is too long is refused" not insmod /modules/tcp_anole_ccp.ko algorithms=reno,longer-than
check "nothing of it is registered" not registered
check "the module loads" insmod /modules/tcp_anole_ccp.ko algorithms=reno,reno
check "it is registered" registered
check "a name that is taken is left out" logged "algorithms=reno: left out"
transfer 6
carried "without an agent, under the fallback"
without_an_agent module
if [ -x /bin/anole-ccp ]; then
    # It takes a machine that is quick enough: its agent may be silent for half a second.
    [ ! -e /cross-check ] || with_a_held_window
    with_an_agent
else
    echo "skipped: there is no agent in the virtual machine"
    check "attacks as nobody" /bin/attack nobody
    check "malformed messages as root" /bin/attack root
fi
sleep 1
check "the module unloads" eventually rmmod tcp_anole_ccp
for _ in 1 2 3; do
    insmod /modules/tcp_anole_ccp.ko
    /bin/attack flood &
    flood=$!
    sleep 1
    check "it unloads while messages come" eventually rmmod tcp_anole_ccp
    wait $flood
done
with_a_listener_elsewhere
[ ! -x /bin/anole-ccp ] || with_a_quota
[ ! -x /bin/anole-ccp ] || with_a_pause
if [ ! -x /bin/anole-ccp ]; then
    echo "skipped: there is no agent with --ipc bpf in the virtual machine"
elif ! kernel_is 6 1; then
    timeout 30 $AGENT bpf >/tmp/agent3 2>&1
    check "--ipc bpf says what this kernel lacks" grep -q "needs Linux 6.1" /tmp/agent3
    cat /tmp/agent3
elif [ ! -e /bpf-briefly ]; then
    with_bpf
    with_bpf_fs
fi
# shellcheck disable=SC2046 # three words
[ ! -e /cross-check ] || cross_check $(cat /cross-check)
check "the kernel has no complaint" not logged "BUG:|WARNING:|Oops|Call Trace"
cat /tmp/logged
echo DONE
