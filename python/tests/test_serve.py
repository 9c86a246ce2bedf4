"""An algorithm of one's own over a socket: refusals, rubbish, and real QUIC flows."""

from __future__ import annotations

import os
import socket
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


def test_a_socket_that_cannot_be_bound_is_refused(tmp_path):
    with pytest.raises(OSError, match="cannot bind"):
        anole_ccp.serve(Fixed, tmp_path / "no" / "agent.sock")
    assert anole_ccp.serve(Fixed, tmp_path / "agent.sock", seconds=0.01).flows == 0


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
