// The server from its socket: answers, batches, deadlines, overload, and clients that misbehave.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <set>
#include <thread>

#include "serving.h"
#include "shortage.h"

namespace anole {
namespace {

// Handle of "test" for a client; the test fails where it is refused.
std::uint32_t open_test(Client& client, const Serving& serving) {
    const Opened opened = client.open("test", serving.schema());
    EXPECT_EQ(opened.status, 0U) << opened.text;
    EXPECT_EQ(opened.inputs, 2U);
    EXPECT_EQ(opened.outputs, 1U);
    EXPECT_EQ(opened.state, 3U);
    return opened.handle;
}

TEST(Server, AnswersWithOutputsAndState) {
    Serving serving;
    Client client(serving.socket());
    const std::uint32_t handle = open_test(client, serving);
    std::vector<float> state = ZEROS;
    const PolicyParts policy = random_policy(Serving::network(), 1);
    for (std::uint64_t id = 0; id < 20; id++) {
        const Answer answer = client.step(handle, id, LONG_US, INPUT, state);
        ASSERT_EQ(answer.status, 0U);
        EXPECT_EQ(answer.id, id);
        ASSERT_EQ(answer.values, Serving::expected(policy, INPUT, state));
        state.assign(answer.values.begin() + 1, answer.values.end());
    }
    EXPECT_EQ(open_test(client, serving), handle) << "opened again";
}

TEST(Server, RefusesWhatItCannotOpen) {
    Serving serving;
    Client client(serving.socket());
    const Opened unknown = client.open("other", serving.schema());
    EXPECT_EQ(unknown.status, 4U);
    EXPECT_EQ(unknown.text, "the server has no " + serving.file("other"));
    const Opened schema = client.open("test", std::string(64, '0'));
    EXPECT_EQ(schema.status, 4U);
    EXPECT_NE(schema.text.find("its schema has the sha256 " + serving.schema()), std::string::npos);
    for (const char* name : {"", "../test", ".test", "te/st", "te st"}) {
        EXPECT_EQ(client.open(name, serving.schema()).status, 3U) << name;
    }
    EXPECT_EQ(client.open(std::string(65, 'a'), serving.schema()).status, 3U);
    EXPECT_EQ(client.open("", "short").status, 3U);
}

TEST(Server, StepsThatDoNotFitAreRefusedAndTheConnectionStays) {
    Serving serving;
    Client client(serving.socket());
    EXPECT_EQ(client.step(0, 1, LONG_US, INPUT, ZEROS).status, 3U) << "before OPEN";
    const std::uint32_t handle = open_test(client, serving);
    EXPECT_EQ(client.step(handle + 1, 2, LONG_US, INPUT, ZEROS).status, 3U);
    EXPECT_EQ(client.step(0xffffffff, 3, LONG_US, INPUT, ZEROS).status, 3U);
    EXPECT_EQ(client.step(handle, 4, LONG_US, INPUT, {0, 0}).status, 3U);
    EXPECT_EQ(client.step(handle, 5, LONG_US, INPUT, std::vector<float>(60000)).status, 3U);
    client.send(packet_of(3, 1, handle, 6, ""));
    EXPECT_EQ(client.receive_answer().status, 3U);
    EXPECT_EQ(client.step(handle, 7, LONG_US, INPUT, ZEROS).status, 0U);
}

TEST(Server, GarbageEndsItsConnectionAndNoOther) {
    Serving serving;
    Client good(serving.socket());
    const std::uint32_t handle = open_test(good, serving);
    const std::vector<std::string> packets = {"x",
                                              std::string(15, '\0'),
                                              packet_of(1, 2, 0, 0, ""),
                                              packet_of(2, 1, 0, 0, ""),
                                              packet_of(4, 1, 0, 0, ""),
                                              packet_of(9, 1, 0, 0, ""),
                                              packet_of(3, 1, 0, 0, std::string(300000, 'x'))};
    for (const std::string& packet : packets) {
        Client bad(serving.socket());
        ASSERT_TRUE(bad.send(packet)) << packet.size();
        EXPECT_FALSE(bad.receive().has_value()) << packet.size();
    }
    std::mt19937 random(3);
    for (int i = 0; i < 300; i++) {
        Client bad(serving.socket());
        std::string packet(1 + random() % 400, '\0');
        for (char& byte : packet) byte = static_cast<char>(random());
        // Half of them with a header that passes.
        if (i % 2 == 0) packet = packet_of(1 + 2 * (i / 2 % 2), 1, 0, 5, packet);
        bad.send(packet);
        bad.send(packet);
    }
    EXPECT_EQ(good.step(handle, 1, LONG_US, INPUT, ZEROS).status, 0U);
}

// Requests of two connections that come within the window are one batch.
TEST(Server, BatchesAcrossConnections) {
    Limits limits;
    limits.max_batch = 4;
    Serving serving(limits);
    Client first(serving.socket()), second(serving.socket());
    const std::uint32_t a = open_test(first, serving), b = open_test(second, serving);
    // The first request is being computed while eight more come: two full batches.
    serving.gate.close();
    first.send_step(a, 100, LONG_US, INPUT, ZEROS);
    serving.gate.wait_for(1);
    for (std::uint64_t id = 0; id < 4; id++) {
        first.send_step(a, id, LONG_US, INPUT, ZEROS);
        second.send_step(b, id, LONG_US, {static_cast<float>(id), 1}, ZEROS);
    }
    // An answer to a request that needs no computing says that those before it were read.
    for (auto* client : {&first, &second}) client->open("test", serving.schema());
    serving.gate.open();
    EXPECT_EQ(first.receive_answer().id, 100U);
    const PolicyParts policy = random_policy(Serving::network(), 1);
    for (std::uint64_t id = 0; id < 4; id++) {
        const Answer one = first.receive_answer(), other = second.receive_answer();
        EXPECT_EQ(one.id, id);
        EXPECT_EQ(other.id, id);
        EXPECT_EQ(one.values, Serving::expected(policy, INPUT, ZEROS));
        EXPECT_EQ(other.values, Serving::expected(policy, {static_cast<float>(id), 1}, ZEROS));
    }
    EXPECT_EQ(serving.gate.take(), (std::vector<std::uint32_t>{1, 4, 4}));
    EXPECT_EQ(serving.server->counters().batches, 3U);
    EXPECT_EQ(serving.server->counters().answered, 9U);
}

// A request that cannot wait for the window takes those before it along.
TEST(Server, ComputesInTimeForTheShortestBudget) {
    Limits limits;
    limits.window = std::chrono::seconds(20);
    Serving serving(limits);
    Client client(serving.socket());
    const std::uint32_t handle = open_test(client, serving);
    client.send_step(handle, 1, LONG_US, INPUT, ZEROS);
    EXPECT_EQ(client.step(handle, 2, 2000000, INPUT, ZEROS).id, 1U);
    EXPECT_EQ(client.receive_answer().status, 0U);
    EXPECT_EQ(serving.gate.take(), (std::vector<std::uint32_t>{2}));
}

// Rows of two models in one batch go to their models.
TEST(Server, GroupsByModel) {
    Serving serving;
    const PolicyParts other = random_policy(sequential(1, {{"dense", 2}}), 5);
    serving.put("other", other);
    Client client(serving.socket());
    const std::uint32_t test = open_test(client, serving);
    Opened opened = client.open("other", serving.schema());
    while (opened.status != 0) opened = client.open("other", serving.schema());
    serving.gate.close();
    serving.gate.take();
    client.send_step(test, 0, LONG_US, INPUT, ZEROS);
    serving.gate.wait_for(1);
    for (std::uint64_t id = 1; id <= 6; id++) {
        if (id % 2 == 0) {
            client.send_step(test, id, LONG_US, INPUT, ZEROS);
        } else {
            client.send_step(opened.handle, id, LONG_US, {1}, {});
        }
    }
    client.send(packet_of(1, 1, 0, 0, serving.schema() + "test"));
    client.receive();
    serving.gate.open();
    std::set<std::uint64_t> ids;
    for (int i = 0; i < 7; i++) {
        const Answer answer = client.receive_answer();
        ids.insert(answer.id);
        EXPECT_EQ(answer.values, answer.id % 2 == 0
                                     ? Serving::expected(random_policy(Serving::network(), 1), INPUT, ZEROS)
                                     : Serving::expected(other, {1}, {}));
    }
    EXPECT_EQ(ids.size(), 7U);
    EXPECT_EQ(serving.gate.take(), (std::vector<std::uint32_t>{1, 3, 3}));
}

TEST(Server, DropsWhatIsPastItsDeadline) {
    Serving serving;
    Client client(serving.socket());
    const std::uint32_t handle = open_test(client, serving);
    EXPECT_EQ(client.step(handle, 1, 0, INPUT, ZEROS).status, 1U);
    serving.gate.close();
    client.send_step(handle, 2, LONG_US, INPUT, ZEROS);
    serving.gate.wait_for(1);
    client.send_step(handle, 3, 20000, INPUT, ZEROS);
    client.send_step(handle, 4, LONG_US, INPUT, ZEROS);
    client.send(packet_of(1, 1, 0, 0, serving.schema() + "test"));
    client.receive();
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    serving.gate.open();
    EXPECT_EQ(client.receive_answer().status, 0U);
    const Answer late = client.receive_answer();
    EXPECT_EQ(late.id, 3U);
    EXPECT_EQ(late.status, 1U);
    EXPECT_TRUE(late.values.empty());
    EXPECT_EQ(client.receive_answer().status, 0U);
    EXPECT_EQ(serving.server->counters().expired, 2U);
}

// A full queue answers at once; one connection fills only half of it.
TEST(Server, SaysWhenItIsOverloaded) {
    Limits limits;
    limits.queue = 8;
    Serving serving(limits);
    Client greedy(serving.socket()), modest(serving.socket());
    const std::uint32_t a = open_test(greedy, serving), b = open_test(modest, serving);
    serving.gate.close();
    greedy.send_step(a, 100, LONG_US, INPUT, ZEROS);
    serving.gate.wait_for(1);
    for (std::uint64_t id = 0; id < 6; id++) greedy.send_step(a, id, LONG_US, INPUT, ZEROS);
    for (const std::uint64_t refused : {4, 5}) {
        const Answer answer = greedy.receive_answer();
        EXPECT_EQ(answer.status, 2U);
        EXPECT_EQ(answer.id, refused);
    }
    modest.send_step(b, 7, LONG_US, INPUT, ZEROS);
    modest.open("test", serving.schema());
    serving.gate.open();
    EXPECT_EQ(modest.receive_answer().status, 0U);
    for (int i = 0; i < 5; i++) EXPECT_EQ(greedy.receive_answer().status, 0U);
    EXPECT_EQ(serving.server->counters().overloaded, 2U);
}

// Whoever does not read loses answers; others are served.
TEST(Server, ASlowClientStallsNobody) {
    Serving serving;
    Client slow(serving.socket()), other(serving.socket());
    const std::uint32_t a = open_test(slow, serving), b = open_test(other, serving);
    std::uint64_t sent = 0;
    while (serving.server->counters().unread == 0 && sent < 100000) {
        slow.send_step(a, sent++, LONG_US, INPUT, ZEROS);
        if (sent % 500 == 0) {
            EXPECT_EQ(other.step(b, sent, LONG_US, INPUT, ZEROS).status, 0U);
        }
    }
    EXPECT_GT(serving.server->counters().unread, 0U);
    EXPECT_EQ(other.step(b, 1, LONG_US, INPUT, ZEROS).status, 0U);
}

// A client that goes while its request is computed takes nothing with it.
TEST(Server, AClientMayGoAtAnyTime) {
    Serving serving;
    Client other(serving.socket());
    const std::uint32_t handle = open_test(other, serving);
    for (int i = 0; i < 50; i++) {
        Client leaving(serving.socket());
        const std::uint32_t own = open_test(leaving, serving);
        for (std::uint64_t id = 0; id < 5; id++) leaving.send_step(own, id, LONG_US, INPUT, ZEROS);
    }
    EXPECT_EQ(other.step(handle, 1, LONG_US, INPUT, ZEROS).status, 0U);
}

TEST(Server, ConnectionsAreBounded) {
    Serving serving({}, 2);
    Client first(serving.socket()), second(serving.socket());
    open_test(first, serving);
    open_test(second, serving);
    Client third(serving.socket());
    EXPECT_FALSE(third.receive().has_value());
    EXPECT_EQ(serving.server->counters().refused, 1U);
    open_test(first, serving);
}

// Agents of the host come again for ever; that is one line a minute.
TEST(Server, RefusedConnectionsDoNotFillTheLog) {
    Serving serving({}, 1);
    Client first(serving.socket());
    open_test(first, serving);
    testing::internal::CaptureStderr();
    for (int i = 0; i < 20; i++) {
        Client refused(serving.socket());
        EXPECT_FALSE(refused.receive().has_value());
    }
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
    EXPECT_NE(log.find("--max-connections"), std::string::npos) << log;
}

// What connected clients send does not have the next attempt made before its time.
TEST(Server, AcceptsAgainAfterAPauseWhateverIsSent) {
    Serving serving;
    Client client(serving.socket());
    const std::uint32_t handle = open_test(client, serving);
    testing::internal::CaptureStderr();
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    // One descriptor is left: the client's own.
    const int free = ::dup(0);
    ASSERT_GE(free, 0);
    ::close(free);
    const rlimit none{static_cast<rlim_t>(free) + 1, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    Client waiting(serving.socket());
    const auto begin = Clock::now();
    const std::chrono::milliseconds pause(100);
    while (Clock::now() < begin + 3 * pause) client.step(handle, 1, LONG_US, INPUT, ZEROS);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    const std::string log = testing::internal::GetCapturedStderr();
    const auto lines = std::count(log.begin(), log.end(), '\n');
    EXPECT_TRUE(lines >= 1 && lines <= 1 + (Clock::now() - begin) / pause) << log;
    open_test(waiting, serving);
}

// A policy after whose step the thread gets no memory for the answer.
class StarvingNetwork : public Policy {
  public:
    explicit StarvingNetwork(PolicyFile file) : network_(std::move(file)) {}
    const Shape& shape() const override { return network_.shape(); }
    void step(std::uint32_t rows, const float* inputs, float* states, float* outputs) const override {
        network_.step(rows, inputs, states, outputs);
        if (inputs[0] == STARVES) allocations_to_refuse = 1;
    }
    static constexpr float STARVES = 7;

  private:
    const ReferenceNetwork network_;
};

TEST(Server, AShortageOfMemoryCostsABatchAndNotTheServer) {
    TemporaryFolder folder;
    const PolicyParts parts = random_policy(Serving::network(), 1);
    write_file(folder.path() + "/test.safetensors", to_bytes(parts));
    Log log;
    const Server server(
        {folder.path() + "/socket", folder.path(), {}, 256},
        [](const std::string& path) { return std::make_shared<StarvingNetwork>(read_policy(path)); }, log);
    Client client(folder.path() + "/socket");
    const std::uint32_t handle = client.open("test", parts.manifest["schema_sha256"]).handle;
    client.send_step(handle, 1, LONG_US, {StarvingNetwork::STARVES, 0}, ZEROS);
    while (server.counters().failed == 0) std::this_thread::yield();
    EXPECT_EQ(client.step(handle, 2, LONG_US, INPUT, ZEROS).status, 0U);
}

}  // namespace
}  // namespace anole
