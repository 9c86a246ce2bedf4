"""An algorithm of one's own over real flows: transfers in this process, a socket, refusals, rubbish."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

import pytest

import anole_ccp

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = [
    path for build in ("debug", "release") if (path := ROOT / "target" / build / "anole-quic").exists()
]


class Fixed(anole_ccp.Algorithm):
    """Forty packets."""

    seen = 0

    def on_flow(self, flow):
        return {"cwnd": 40 * flow.mss}

    def on_report(self, report):
        type(self).seen += 1


def served(algorithm, path, during):
    """What `serve` returned while `during` ran beside it, which then stops it."""
    stop, done = anole_ccp.Stop(), []

    def run():
        while not path.exists():
            time.sleep(0.01)
        try:
            during()
        finally:
            stop.set()

    beside = threading.Thread(target=run)
    beside.start()
    done = anole_ccp.serve(algorithm, path, stop=stop)
    beside.join()
    return done


def test_rubbish_does_nothing_and_the_socket_goes(tmp_path):
    path = tmp_path / "agent.sock"

    def rubbish():
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as peer:
            peer.bind(str(tmp_path / "peer.sock"))
            for size in range(200):
                peer.sendto(os.urandom(size), str(path))
        assert path.stat().st_mode & 0o777 == 0o600

    assert served(Fixed, path, rubbish) == anole_ccp.Served(0, 0)
    assert not path.exists()


def create(sid, mss):
    """A CREATE, which begins a flow."""
    return struct.pack("<HHIIIIIII", 0, 32, sid, 10 * 1448, mss, 0, 0, 0, 0)


def test_a_peer_that_does_not_read_and_one_that_errs_disturb_no_other(tmp_path):
    path, begun = tmp_path / "agent.sock", []

    class Seeds(anole_ccp.Algorithm):
        """Notes seeds and segment sizes."""

        seen = []

        def on_flow(self, flow):
            self.seen.append((flow.seed, flow.mss))
            return {"cwnd": 40 * flow.mss}

    def peers():
        with (
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as deaf,
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other,
        ):
            deaf.bind(str(tmp_path / "deaf.sock"))
            other.bind(str(tmp_path / "other.sock"))
            deaf.settimeout(5)
            other.settimeout(5)
            for sid in range(1, 700):
                deaf.sendto(create(sid, 1448), str(path))
            for mss in (0, 2**32 - 1, 65_536):
                other.sendto(create(1, mss), str(path))
            other.sendto(create(1, 1000), str(path))
            begun.append(other.recv(1 << 12))

    served(Seeds, path, peers)
    assert begun and Seeds.seen[-1][1] == 1000 and len(Seeds.seen) == 700
    assert len({seed for seed, _ in Seeds.seen}) == 700 and 0 not in dict(Seeds.seen)


def test_flows_of_a_datapath_that_was_killed_make_room_and_no_others(tmp_path):
    path, answers = tmp_path / "agent.sock", []

    def peers():
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as living:
            living.bind(str(tmp_path / "living.sock"))
            living.sendto(create(1, 1448), str(path))
            answers.append(living.recv(1 << 12))
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as killed:
                killed.bind(str(tmp_path / "killed.sock"))
                for sid in range(1, 1024):
                    killed.sendto(create(sid, 1448), str(path))
                living.settimeout(0.3)
                living.sendto(create(2, 1448), str(path))
                with pytest.raises(TimeoutError):
                    living.recv(1 << 12)
            # Its socket's file stays.
            time.sleep(1)
            living.settimeout(5)
            living.sendto(create(3, 1448), str(path))
            answers.append(living.recv(1 << 12))

    with pytest.warns(RuntimeWarning, match="1024 flows are governed") as told:
        done = served(Fixed, path, peers)
    assert len(answers) == 2 and done.flows == 1 + 1023 + 1 and len(told) == 1


def test_a_socket_that_cannot_be_bound_is_refused(tmp_path):
    with pytest.raises(OSError, match=r"cannot bind .*in a folder that is there"):
        anole_ccp.serve(Fixed, tmp_path / "no" / "agent.sock")
    assert anole_ccp.serve(Fixed, tmp_path / "agent.sock", seconds=0.01).flows == 0


def test_a_socket_that_a_killed_process_left_is_replaced_and_nothing_else(tmp_path):
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as living:
        living.bind(str(path))
        with pytest.raises(OSError, match="a socket that nobody serves"):
            anole_ccp.serve(Fixed, path, seconds=0.01)
    assert path.exists(), "as a killed process leaves it"
    assert anole_ccp.serve(Fixed, path, seconds=0.01).flows == 0 and not path.exists()
    path.write_text("a file")
    with pytest.raises(OSError, match="cannot bind"):
        anole_ccp.serve(Fixed, path, seconds=0.01)
    assert path.read_text() == "a file"


@pytest.mark.skipif(not PROGRAMS, reason="anole-quic is not built (cargo build --bins)")
def test_real_quic_transfers_are_governed(tmp_path):
    path, certificate = tmp_path / "agent.sock", tmp_path / "quic.pem"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [PROGRAMS[0], "serve", "--listen", address, "--cert", certificate, "--connections", "1"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def transfer():
        while not certificate.exists():
            time.sleep(0.01)
        sent = [PROGRAMS[0], "send", address, "--cert", certificate, "--agent", path, "--duration", "1"]
        subprocess.run(sent, check=True, stdout=subprocess.DEVNULL, timeout=60)

    try:
        done = served(Fixed, path, transfer)
    finally:
        server.terminate()
        server.wait()
    assert done.flows == 1 and done.reports == Fixed.seen > 0


AGENTS = [path.with_name("anole-ccp") for path in PROGRAMS if path.with_name("anole-ccp").exists()]


@pytest.mark.skipif(not AGENTS, reason="anole-ccp is not built (cargo build --bins)")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.skipif(not Path("/sys/kernel/btf/vmlinux").exists(), reason="the kernel has no BTF")
def test_linux_tcp_is_governed(tmp_path):
    class Kept(Fixed):
        """Its own count of reports."""

        seen = 0

    path, said = tmp_path / "agent.sock", tmp_path / "relay.log"

    def relayed():
        with said.open("w") as log:
            command = [AGENTS[0], "relay", "--socket", path, "--bpf-fs", tmp_path]
            return subprocess.Popen(command, stderr=log)

    def connection():
        """Sends a packet now and then over this host's TCP, until the algorithm has heard of it."""
        relay, until = relayed(), time.monotonic() + 60
        with socket.create_server(("127.0.0.1", 0)) as server:
            with socket.create_connection(server.getsockname()) as sender, server.accept()[0] as receiver:
                while Kept.seen < 5 and time.monotonic() < until:
                    try:
                        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"anole_ccp")
                    except FileNotFoundError:
                        time.sleep(0.05)
                    if relay.poll() is not None:
                        # Other tests of this host may have the kernel's datapath for a while.
                        time.sleep(0.5)
                        relay = relayed()
                    sender.sendall(bytes(1000))
                    receiver.recv(1 << 16)
                    time.sleep(0.01)
        relay.terminate()
        relay.wait()

    done = served(Kept, path, connection)
    assert done.flows == 1 and done.reports == Kept.seen >= 5, said.read_text()
    assert "relay stops" in said.read_text()


class Aimd(anole_ccp.Algorithm):
    """A packet more for each window, half after a loss, once per round trip."""

    def on_flow(self, flow):
        self.mss, self.cwnd, self.cut_s = flow.mss, flow.init_cwnd, 0.0
        return {"cwnd": self.cwnd, "interval_us": 10_000}

    def on_report(self, report):
        if report.lost and report.now_s - self.cut_s > report.rtt_us / 1e6:
            self.cwnd, self.cut_s = max(self.cwnd / 2, 2 * self.mss), report.now_s
        elif not report.lost:
            self.cwnd += self.mss * report.acked / self.cwnd
        return {"cwnd": self.cwnd}


def link(**more):
    """20 Mbps, 20 ms, 1 BDP for two seconds."""
    return anole_ccp.Scenario(
        link={"capacity_mbps": 20, "one_way_delay_ms": 10, "buffer_bdp": 1}, duration_s=2, **more
    )


def test_a_transfer_of_real_packets_tells_what_a_simulation_tells(tmp_path):
    real, simulated = anole_ccp.transfer(Aimd, link()), anole_ccp.simulate(link(), Aimd)
    assert set(real.flow.series.__dict__) == set(simulated.flow.series.__dict__)
    points = real.flow.series.time_s.size
    assert points > 10 and real.flow.series.cwnd_bytes.size == points
    governed = real.figures["flows"][0]
    assert governed["reports"] > 20 and governed["updates"] > 20
    # Packets wait for the link: no round trip is shorter than its own.
    assert real.flow.rtt_mean_ms >= 20
    assert 0 < real.flow.throughput_mbps <= 20.5
    assert real.plot().save(tmp_path / "real.svg").stat().st_size > 5000


def test_what_arrives_after_a_transfer_counts_no_more():
    class Deep(anole_ccp.Algorithm):
        """A fifth of a second of packets in the queue."""

        def on_flow(self, flow):
            return {"cwnd": 350 * flow.mss}

    run = anole_ccp.transfer(Deep, link().changed(["duration_s=0.55", "bottleneck.buffer_bdp=20"]))
    assert run.flow.series.throughput_mbps.size == 6
    assert run.flow.throughput_mbps <= 20.5


def test_a_transfer_runs_what_is_named(tmp_path):
    real = anole_ccp.transfer("cubic", link().changed(["duration_s=1"]))
    assert real.alg == "cubic" and real.figures["flows"][0]["reports"] > 10
    with pytest.raises(ValueError, match="did you mean cubic"):
        anole_ccp.transfer("cubik", link())
    with pytest.raises(ValueError, match="takes no policy"):
        anole_ccp.transfer("cubic+libra", link())


def test_what_a_transfer_cannot_run_is_refused():
    two = link(flow=[{"alg": "cubic", "under_test": True}, {"alg": "cubic"}])
    with pytest.raises(ValueError, match="2 flows"):
        anole_ccp.transfer(Aimd, two)
    with pytest.raises(ValueError, match="mss_bytes = 300"):
        anole_ccp.transfer(Aimd, link(mss_bytes=300))
    for key, value in {"app_mbps": 2, "ecn": True, "bytes": 10_000, "start_s": 0.5}.items():
        with pytest.raises(ValueError, match=f"has {key}, which only `simulate` knows"):
            anole_ccp.transfer(Aimd, link(flow={"alg": "cubic", key: value}))


def test_a_transfer_has_the_seed_and_the_slots_of_a_simulation_and_leaves_the_warm_up_out():
    class Late(anole_ccp.Algorithm):
        """Two packets for a while, then forty."""

        seeds = []

        def on_flow(self, flow):
            self.mss, self.begun_s = flow.mss, flow.now_s
            self.seeds.append(flow.seed)
            return {"cwnd": 2 * flow.mss}

        def on_report(self, report):
            return {"cwnd": 40 * self.mss} if report.now_s - self.begun_s > 0.6 else None

    flow = anole_ccp.transfer(Late, link(warmup_s=1), seed=7).flow
    anole_ccp.simulate(link(), Late, seed=7)
    assert Late.seeds[0] == Late.seeds[1] != 7
    sent = flow.series.throughput_mbps
    assert flow.throughput_mbps == pytest.approx(sent[10:].mean(), rel=0.2) and sent[:5].mean() < 5
    with pytest.raises(ValueError, match="no-such"):
        anole_ccp.transfer("anole", link(flow={"alg": "anole", "classic": "no-such"}))


def test_an_exception_ends_a_transfer_and_comes_out():
    class Broken(anole_ccp.Algorithm):
        def on_report(self, report):
            raise KeyError("mine")

    begun = time.monotonic()
    with pytest.raises(KeyError, match="mine"):
        anole_ccp.transfer(Broken, link())
    assert time.monotonic() - begun < 2
