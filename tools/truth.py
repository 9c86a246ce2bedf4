#!/usr/bin/env python3
"""Holds what carries flows here against each other, and the laws against ns-3's and picoquic's (docs/truth.md).

tools/truth.py datapaths   twelve links: in simulation, over QUIC, on Linux TCP, on Linux TCP through Mahimahi
tools/truth.py ns3         six laws: in simulation, and their namesakes of ns-3 (Debian: libns3-dev, g++)
tools/truth.py picoquic    four laws: in simulation, and their namesakes of picoquic in its simulator (--pico-sim)
tools/truth.py speed       the same flow on three links in both, timed in turns

`make` builds the programs that the first and the last ask for. Real packets take root and an idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
NS3_SOURCE = ROOT / "tools" / "ns3" / "link.cc"
NS3 = ROOT / "target" / "ns3-link"
NS3_LIBRARIES = ["internet", "applications", "point-to-point", "traffic-control", "network", "core"]
#: Laws of which the kernel has its own, which Linux TCP and Mahimahi show: nobody's agent takes part there.
KERNEL_LAWS = ("bbr", "cubic", "reno")
#: From here on a difference is marked.
FAR = 0.1


class Link(NamedTuple):
    """A link in the words of a scenario, and how many flows share it."""

    name: str
    mbps: float = 48.0
    delay_ms: float = 25.0
    buffer_bdp: float = 2.0
    loss: float = 0.0
    flows: int = 1
    trace: str = ""


TWELVE = [
    Link("normal"),
    Link("loss 0.1 %", loss=0.001),
    Link("loss 1 %", loss=0.01),
    Link("50 ms", delay_ms=50.0),
    Link("100 ms", delay_ms=100.0),
    Link("10 ms", delay_ms=10.0),
    Link("12 Mbps", mbps=12.0),
    Link("96 Mbps", mbps=96.0),
    Link("buffer 0.2 BDP", buffer_bdp=0.2),
    Link("buffer 5 BDP", buffer_bdp=5.0),
    Link("two flows", flows=2),
    Link("cellular", trace="cell.down"),
]
NS3_LINKS = [
    Link("48 Mbps, 25 ms, 2 BDP"),
    Link("the same, loss 0.1 %", loss=0.001),
    Link("the same, 0.2 BDP", buffer_bdp=0.2),
]
#: Our law, the class of ns-3, and what else that is told.
NS3_LAWS = [
    ("cubic", "TcpCubic"),
    ("bbr", "TcpBbr"),
    ("reno", "TcpNewReno"),
    ("vegas", "TcpVegas"),
    ("westwood", "TcpWestwood"),
    ("illinois", "TcpIllinois"),
]


PICOQUIC_LINKS = [NS3_LINKS[0], NS3_LINKS[2], Link("12 Mbps, 50 ms, 1 BDP", 12.0, 50.0, 1.0)]
#: Our law, and picoquic's: its `bbr` is the third version.
PICOQUIC_LAWS = [("cubic", "cubic"), ("bbr", "bbr1"), ("bbr3", "bbr"), ("reno", "reno")]


class Figures(NamedTuple):
    """What came out: throughput of all flows, mean one-way delay, loss on the link."""

    mbps: float
    delay_ms: float
    loss: float

    def text(self, beside: Figures | None = None) -> str:
        """The figures; those that are far from another one's are marked."""

        def far(own: float, other: float) -> str:
            return "*" if abs(own - other) > FAR * max(abs(other), 1e-9) else ""

        marks = (
            ("", "") if beside is None else (far(self.mbps, beside.mbps), far(self.delay_ms, beside.delay_ms))
        )
        return f"{self.mbps:.2f}{marks[0]}, {self.delay_ms:.1f}{marks[1]}, {self.loss * 100:.2f}"


def scenario(link: Link, seconds: float, warmup: float) -> str:
    """The link as a scenario file."""
    capacity = f'trace = "{link.trace}"' if link.trace else f"capacity_mbps = {link.mbps}"
    return f"""name = "truth"
source = "tools/truth.py: {link.name}"
duration_s = {seconds}
warmup_s = {warmup}
[[link]]
name = "bottleneck"
{capacity}
one_way_delay_ms = {link.delay_ms}
buffer_bdp = {link.buffer_bdp}
random_loss = {link.loss}
[[flow]]
alg = "cubic"
under_test = true
count = {link.flows}
"""


def measured(command: list[str], link: Link) -> Figures | None:
    """Runs anole-eval; none, with its error told, where it could not."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{' '.join(command)}: {done.stderr.strip()}", file=sys.stderr)
        return None
    print(done.stderr.strip(), file=sys.stderr, end="\n" if done.stderr.strip() else "")
    run: dict[str, Any] = json.loads(done.stdout)
    bottleneck = run["links"][0]
    return Figures(
        sum(flow["throughput_mbps"] for flow in run["flows"]),
        # A queue's delay is all flows' together, which Mahimahi does not tell apart; transmission is left out.
        bottleneck["queue_delay_mean_ms"] + link.delay_ms,
        bottleneck["loss_rate"],
    )


def datapaths(options: argparse.Namespace, folder: Path) -> None:
    """The twelve links."""
    program = [str(options.program)]
    carriers = {
        "simulation": ["sim"],
        "QUIC": ["emulate", "--datapath", "quic"],
        "Linux TCP": ["emulate", "--datapath", "kernel"],
        "Mahimahi": ["emulate", "--datapath", "kernel", "--emulator", "mahimahi"],
    }
    make = [*program, "trace", "make", "cellular", "--seed", "1", "--out", str(folder / "cell.down")]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
    print(f"Load of this machine before: {os.getloadavg()[0]:.1f}, processors: {os.cpu_count()}\n")
    print("| link | law | " + " | ".join(carriers) + " |\n|---" + "|---" * (len(carriers) + 1) + "|")
    for link in TWELVE if options.links == 0 else TWELVE[: options.links]:
        file = folder / "truth.toml"
        file.write_text(scenario(link, options.seconds, options.warmup))
        for law in options.alg.split(","):
            cells: list[str] = []
            simulated = None
            for arguments in carriers.values():
                own = f"linux:{law}" if "kernel" in arguments and law in KERNEL_LAWS else law
                figures = measured([*program, *arguments, str(file), "--alg", own, "--json"], link)
                cells.append("–" if figures is None else figures.text(simulated))
                simulated = simulated or figures
            print(f"| {link.name} | `{law}` | " + " | ".join(cells) + " |", flush=True)
    print(f"\nLoad of this machine after: {os.getloadavg()[0]:.1f}")


def build_ns3() -> None:
    """Compiles tools/ns3/link.cc."""
    NS3.parent.mkdir(exist_ok=True)
    libraries = [f"-lns3-{library}" for library in NS3_LIBRARIES]
    command = ["g++", "-O2", "-std=c++17", str(NS3_SOURCE), "-o", str(NS3), *libraries]
    if not shutil.which("g++") or subprocess.run(command).returncode:
        sys.exit("tools/truth.py: ns3 and speed take g++ and ns-3.37: sudo apt-get install libns3-dev g++")


def ns3_command(tcp: str, link: Link, options: argparse.Namespace) -> list[str]:
    """The same link in ns-3's words."""
    buffer_bytes = int(link.mbps * 1e6 / 8 * 2 * link.delay_ms / 1e3 * link.buffer_bdp)
    told = {
        "tcp": tcp,
        "mbps": link.mbps,
        "delay-ms": link.delay_ms,
        "buffer-bytes": buffer_bytes,
        "loss": link.loss,
        "seconds": options.seconds,
        "warmup": options.warmup,
    }
    return [str(NS3), *(f"--{name}={value}" for name, value in told.items())]


def ns3(options: argparse.Namespace, folder: Path) -> None:
    """The laws beside ns-3's."""
    build_ns3()
    print("| link | law | simulation | ns-3.37 |\n|---|---|---|---|")
    for link in NS3_LINKS:
        file = folder / "truth.toml"
        file.write_text(scenario(link, options.seconds, options.warmup))
        for law, tcp in NS3_LAWS:
            ours = measured([str(options.program), "sim", str(file), "--alg", law, "--json"], link)
            told = subprocess.run(ns3_command(tcp, link, options), capture_output=True, text=True, check=True)
            run = json.loads(told.stdout)
            # Ours is the queue's delay and propagation; ns-3 has transmission as well.
            transmission = 1500 * 8 / (link.mbps * 1e3)
            theirs = Figures(run["throughput_mbps"], run["owd_mean_ms"] - transmission, run["loss_rate"])
            cell = "–" if ours is None else ours.text()
            print(f"| {link.name} | `{law}` | {cell} | {theirs.text(ours)} |", flush=True)


#: A data packet of a qlog file of picoquic: relative time, µs; number; size, bytes.
QLOG_PACKET = r'\[(\d+), "transport", "packet_%s", .*"1RTT".*"packet_size": (\d+), "packet_number": (\d+)'


def qlog_packets(file: Path, event: str) -> dict[int, tuple[int, int]]:
    """The time in µs and the size in bytes of each data packet by its number."""
    text = file.read_text()
    began = re.search(r'"reference_time": "(\d+)"', text)
    zero = int(began.group(1)) if began else 0
    return {
        int(number): (zero + int(at), int(size)) for at, size, number in re.findall(QLOG_PACKET % event, text)
    }


def picoquic_run(law: str, link: Link, options: argparse.Namespace, folder: Path) -> Figures:
    """A download through picoquic's simulated link, from the packets that both sides saw."""
    spec = folder / "spec.txt"
    spec.write_text(f"""main_start_time: 0
main_target_time: {round(3e6 * options.seconds)}
main_scenario_text: =b1:*1:397:{round(link.mbps * 1e6 / 8 * options.seconds)};
main_cc_algo: {law}
nb_connections: 1
data_rate_in_gbps: {link.mbps / 1e3}
latency: {round(link.delay_ms * 1e3)}
queue_delay_max: {round(link.buffer_bdp * 2e3 * link.delay_ms)}
qlog_dir: {folder}
""")
    subprocess.run([options.pico_sim, "-S", options.picoquic, spec], check=True, capture_output=True)
    (server,), (client,) = (list(folder.glob(f"*.{side}.qlog")) for side in ("server", "client"))
    received = qlog_packets(client, "received")
    first, last = options.warmup * 1e6, options.seconds * 1e6
    sent = {n: at for n, (at, _) in qlog_packets(server, "sent").items() if first <= at < last}
    carried = sum(size for at, size in received.values() if first <= at < last)
    # As here, without transmission.
    delays = [received[n][0] - at - received[n][1] * 8 / link.mbps for n, at in sent.items() if n in received]
    for file in (server, client):
        file.unlink()
    loss = 1 - len(delays) / len(sent)
    return Figures(carried * 8 / (last - first), sum(delays) / len(delays) / 1e3, loss)


def picoquic(options: argparse.Namespace, folder: Path) -> None:
    """The laws beside picoquic's."""
    if options.pico_sim is None:
        sys.exit(
            "--pico-sim FILE is missing: the simulator of picoquic's tree (docs/truth.md says how it is built)"
        )
    options.picoquic = options.picoquic or options.pico_sim.resolve().parent.parent
    print("| link | law | simulation | picoquic |\n|---|---|---|---|")
    for link in PICOQUIC_LINKS:
        file = folder / "truth.toml"
        file.write_text(scenario(link, options.seconds, options.warmup))
        for law, theirs in PICOQUIC_LAWS:
            ours = measured([str(options.program), "sim", str(file), "--alg", law, "--json"], link)
            told = picoquic_run(theirs, link, options, folder)
            cell = "–" if ours is None else ours.text()
            print(f"| {link.name} | `{law}` | {cell} | {told.text(ours)} |", flush=True)


def seconds_of(command: list[str]) -> tuple[float, float]:
    """Wall time and processor time of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def speed(options: argparse.Namespace, folder: Path) -> None:
    """Both simulators in turns."""
    build_ns3()
    print("| link | law | simulation, s of processor time | ns-3.37 | times as fast |\n|---|---|---|---|---|")
    links = [Link("normal"), Link("loss 0.1 %", loss=0.001), Link("50 ms", delay_ms=50.0)]
    for link in links:
        file = folder / "truth.toml"
        file.write_text(scenario(link, options.seconds, options.warmup))
        for law, tcp in NS3_LAWS[:2]:
            ours, theirs = [], []
            for _ in range(options.runs):
                ours.append(seconds_of([str(options.program), "sim", str(file), "--alg", law, "--json"])[1])
                theirs.append(seconds_of(ns3_command(tcp, link, options))[1])
            fast, slow = sorted(ours)[len(ours) // 2], sorted(theirs)[len(theirs) // 2]
            print(f"| {link.name} | `{law}` | {fast:.3f} | {slow:.2f} | {slow / fast:.0f} |", flush=True)


def main() -> None:
    """Runs one of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["datapaths", "ns3", "picoquic", "speed"])
    parser.add_argument(
        "--program", type=Path, default=ROOT / "anole-eval", help="anole-eval [default: make's]"
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="length of a run")
    parser.add_argument("--warmup", type=float, default=5.0, help="left out of every figure")
    parser.add_argument("--alg", default="cubic,bbr,anole", help="laws of datapaths")
    parser.add_argument("--links", type=int, default=0, help="so many of the twelve links only")
    parser.add_argument("--pico-sim", type=Path, help="of picoquic: its simulator")
    parser.add_argument(
        "--picoquic",
        type=Path,
        help="its sources, with their test certificates [default: above the folder of --pico-sim]",
    )
    parser.add_argument("--runs", type=int, default=5, help="of speed, whose medians are told")
    options = parser.parse_args()
    if not options.program.exists():
        parser.error(f"{options.program} is not there: run make, or name one with --program")
    parts = {"datapaths": datapaths, "ns3": ns3, "picoquic": picoquic, "speed": speed}
    with tempfile.TemporaryDirectory() as folder:
        parts[options.what](options, Path(folder))


if __name__ == "__main__":
    main()
