/*
 * One TCP flow of ns-3 over one link, as `anole-eval sim` has it: what passed, how long it took, what was
 * lost.
 *
 * This program is free software; you can redistribute it and/or modify it under the terms of the GNU General
 * Public License version 2 as published by the Free Software Foundation. It is distributed in the hope that
 * it will be useful, but WITHOUT ANY WARRANTY; without even the implied warranty of MERCHANTABILITY or
 * FITNESS FOR A PARTICULAR PURPOSE. See the GNU General Public License for more details.
 *
 * SPDX-License-Identifier: GPL-2.0-only
 *
 * It links with ns-3, which is under that license, and is no part of the product.
 *
 *   sender ──10 Gbps, no delay── router ──the link: rate, drop-tail queue, delay, random loss── receiver
 */

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-helper.h"

#include <iostream>
#include <vector>

using namespace ns3;

namespace {

// Counts packets with data, from the sender's IP layer to the receiver's. IPv4's identification tells them
// apart: a packet's number in ns-3 is the same for all that an application sent at once.
class Meter {
  public:
    explicit Meter(Time warmup) : warmup(warmup) {}

    void Sent(Ptr<const Packet> packet, Ptr<Ipv4>, uint32_t) {
        if (packet->GetSize() > HEADERS) {
            Flight& flight = flights[Identification(packet)];
            // 65 536 packets ago it was sent, and did not arrive.
            lost += flight.open && flight.sent >= warmup;
            flight = {Simulator::Now(), true};
        }
    }

    void Received(Ptr<const Packet> packet, Ptr<Ipv4>, uint32_t) {
        Flight& flight = flights[Identification(packet)];
        if (flight.open && Simulator::Now() >= warmup) {
            packets += 1;
            bytes += packet->GetSize();
            delay += (Simulator::Now() - flight.sent).GetSeconds();
        }
        flight.open = false;
    }

    // Of packets sent after the warm-up; one that has not been on its way for longer than `patience` may
    // arrive.
    double LossRate(Time patience) const {
        uint64_t all = lost;
        for (const Flight& flight : flights) {
            all += flight.open && flight.sent >= warmup && Simulator::Now() - flight.sent > patience;
        }
        return static_cast<double>(all) / static_cast<double>(all + packets);
    }

    uint64_t packets = 0;
    uint64_t bytes = 0;
    double delay = 0;  // sum, s

  private:
    static constexpr uint32_t HEADERS = 100;  // of a packet without data, at most

    struct Flight {
        Time sent;
        bool open = false;
    };

    static uint16_t Identification(Ptr<const Packet> packet) {
        Ipv4Header header;
        packet->PeekHeader(header);
        return header.GetIdentification();
    }

    Time warmup;
    uint64_t lost = 0;
    std::vector<Flight> flights = std::vector<Flight>(1 << 16);
};

}  // namespace

int main(int argc, char* argv[]) {
    std::string tcp = "TcpCubic";
    double mbps = 48, delayMs = 25, loss = 0, seconds = 30, warmup = 0;
    uint32_t bufferBytes = 300000, mss = 1448, seed = 1;
    CommandLine command;
    command.AddValue("tcp", "TypeId of the congestion control, without ns3::", tcp);
    command.AddValue("mbps", "rate of the link, packets of mss + 52 bytes", mbps);
    command.AddValue("delay-ms", "its propagation delay, each way", delayMs);
    command.AddValue("buffer-bytes", "its queue", bufferBytes);
    command.AddValue("loss", "probability that a packet is lost behind the queue", loss);
    command.AddValue("seconds", "simulated time", seconds);
    command.AddValue("warmup", "left out of every figure, s", warmup);
    command.AddValue("mss", "payload of a full packet, bytes", mss);
    command.AddValue("seed", "of the random loss", seed);
    command.Parse(argc, argv);

    Config::SetDefault("ns3::TcpWestwood::ProtocolType", EnumValue(TcpWestwood::WESTWOODPLUS));

    const uint32_t full = mss + 52;  // IPv4 20, TCP 20, time stamps 12
    const uint32_t ppp = 2;          // what the device adds to a packet
    const double rate = mbps * 1e6 * (full + ppp) / full;
    RngSeedManager::SetRun(seed);
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::" + tcp)));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(mss));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    // An ACK for every packet, as in the simulator; Linux's smallest timeout.
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    for (const char* buffer : {"SndBufSize", "RcvBufSize"}) {
        Config::SetDefault(std::string("ns3::TcpSocket::") + buffer, UintegerValue(1 << 26));
    }

    NodeContainer nodes(3);
    PointToPointHelper access;
    access.SetDeviceAttribute("DataRate", StringValue("10Gbps"));
    access.SetChannelAttribute("Delay", StringValue("0ms"));
    access.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1000000p"));
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(static_cast<uint64_t>(rate))));
    link.SetChannelAttribute("Delay", TimeValue(Seconds(delayMs / 1e3)));
    link.SetQueue("ns3::DropTailQueue", "MaxSize",
                  QueueSizeValue(QueueSize(QueueSizeUnit::BYTES, bufferBytes / full * (full + ppp))));
    NetDeviceContainer near = access.Install(nodes.Get(0), nodes.Get(1));
    NetDeviceContainer far = link.Install(nodes.Get(1), nodes.Get(2));
    if (loss > 0) {
        auto errors = CreateObject<RateErrorModel>();
        errors->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
        errors->SetRate(loss);
        far.Get(1)->SetAttribute("ReceiveErrorModel", PointerValue(errors));
    }

    InternetStackHelper().Install(nodes);
    Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    addresses.Assign(near);
    addresses.NewNetwork();
    Ipv4InterfaceContainer end = addresses.Assign(far);
    // The queues above are the only ones.
    TrafficControlHelper none;
    none.Uninstall(near);
    none.Uninstall(far);
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    const uint16_t port = 5001;
    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
    sink.Install(nodes.Get(2)).Start(Seconds(0));
    BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(end.GetAddress(1), port));
    bulk.SetAttribute("SendSize", UintegerValue(1 << 16));
    bulk.Install(nodes.Get(0)).Start(Seconds(0));

    Meter meter(Seconds(warmup));
    auto at = [&](uint32_t node) { return nodes.Get(node)->GetObject<Ipv4L3Protocol>(); };
    at(0)->TraceConnectWithoutContext("Tx", MakeCallback(&Meter::Sent, &meter));
    at(2)->TraceConnectWithoutContext("Rx", MakeCallback(&Meter::Received, &meter));
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();

    const Time longest = Seconds(delayMs / 1e3 + bufferBytes * 8.0 / (mbps * 1e6) + 0.1);
    std::cout << "{\"throughput_mbps\": " << meter.bytes * 8.0 / 1e6 / (seconds - warmup)
              << ", \"owd_mean_ms\": " << meter.delay * 1e3 / meter.packets
              << ", \"loss_rate\": " << meter.LossRate(longest) << "}" << std::endl;
    Simulator::Destroy();
    return 0;
}
