// policy-bench: time per step of networks like those that are shipped, and of round trips to the server.
//
//   policy-bench [LIBRARY]     libanole_policy_torch.so; beside this program if not given
//
// Weights are random: the time does not depend on them. One line per figure, times in µs; "cpu" is the mean
// processor time per row, which a busy machine lengthens less.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <thread>

#include "client.h"
#include "library.h"
#include "policy_writer.h"
#include "server.h"

namespace {

using anole::Clock;
using std::chrono::duration;

constexpr unsigned WARM_UP = 50;
constexpr double SECONDS_PER_STEP_FIGURE = 1.0;
constexpr double SECONDS_PER_ROUND_TRIP_FIGURE = 3.0;
constexpr double REQUESTS_PER_FLOW_AND_SECOND = 10;

double microseconds(Clock::duration time) {
    return duration<double, std::micro>(time).count();
}

// Processor time that this thread has had.
double cpu_microseconds() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return 1e6 * static_cast<double>(time.tv_sec) + 1e-3 * static_cast<double>(time.tv_nsec);
}

// The value below which `share` of them lie.
double quantile(std::vector<double>& values, double share) {
    const auto at =
        values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
    std::nth_element(values.begin(), at, values.end());
    return *at;
}

void step_times(const char* name, const anole::Policy& policy) {
    const anole::Shape& shape = policy.shape();
    for (const std::uint32_t rows : {1U, 32U, 256U}) {
        std::vector<float> inputs(rows * shape.inputs, 0.1F), states(rows * shape.state),
            outputs(rows * shape.outputs);
        const auto step = [&] {
            const auto start = Clock::now();
            policy.step(rows, inputs.data(), states.data(), outputs.data());
            return microseconds(Clock::now() - start);
        };
        for (unsigned i = 0; i < WARM_UP; i++) step();
        std::vector<double> times;
        const double cpu = cpu_microseconds();
        const auto end = Clock::now() + duration<double>(SECONDS_PER_STEP_FIGURE);
        while (Clock::now() < end) times.push_back(step());
        const double cpu_per_row = (cpu_microseconds() - cpu) / static_cast<double>(times.size()) / rows;
        const double p50 = quantile(times, 0.5), p99 = quantile(times, 0.99);
        std::printf("%-18s batch %-4u p50 %9.1f  p99 %9.1f  per row %8.2f  cpu %8.2f\n", name, rows, p50, p99,
                    p50 / rows, cpu_per_row);
        std::fflush(stdout);
    }
}

// One agent whose flows ask evenly spaced, without waiting for answers.
void round_trips(const std::string& socket, const anole::Shape& shape, unsigned flows) {
    anole::Client client(socket);
    const anole::Opened opened = client.open("mlp", shape.schema_sha256);
    if (opened.status != 0) throw std::runtime_error(opened.text);
    const double rate = REQUESTS_PER_FLOW_AND_SECOND * flows;
    const auto requests = static_cast<std::size_t>(std::max(20.0, rate * SECONDS_PER_ROUND_TRIP_FIGURE));
    const std::vector<float> inputs(shape.inputs, 0.1F), state(shape.state);
    const auto start = Clock::now() + std::chrono::milliseconds(50);
    const auto due = [&](std::size_t i) {
        return start +
               std::chrono::duration_cast<Clock::duration>(duration<double>(static_cast<double>(i) / rate));
    };
    std::thread sender([&] {
        for (std::size_t i = 0; i < requests; i++) {
            std::this_thread::sleep_until(due(i));
            client.send_step(opened.handle, i, 1000000, inputs, state);
        }
    });
    // From when a request was due: a late sender counts against the figure.
    std::vector<double> times;
    std::size_t failed = 0;
    for (std::size_t i = 0; i < requests; i++) {
        const anole::Answer answer = client.receive_answer();
        times.push_back(microseconds(Clock::now() - due(answer.id)));
        failed += answer.status != 0;
    }
    sender.join();
    const double p50 = quantile(times, 0.5), p99 = quantile(times, 0.99);
    std::printf("round trip, mlp    flows %-4u p50 %9.1f  p99 %9.1f  failed %zu of %zu\n", flows, p50, p99,
                failed, requests);
    std::fflush(stdout);
}

void bench(const std::string& path) {
    const anole::Library library(path);
    library.set_threads(1);
    std::printf("%s\n", library.describe().c_str());
    const anole::TemporaryFolder folder;
    const auto load = [&](const char* name, const nlohmann::json& network) {
        const std::string file = folder.path() + "/" + name + ".safetensors";
        anole::write_file(file, to_bytes(anole::random_policy(network, 1)));
        return library.open(file);
    };
    const auto mlp =
        load("mlp", anole::sequential(40, {{"dense", 512, "tanh"}, {"dense", 512, "tanh"}, {"dense", 1}}));
    step_times("MLP 2x512", *mlp);
    step_times("LSTM 64+128",
               *load("lstm", anole::sequential(12, {{"lstm", 64}, {"lstm", 128}, {"dense", 4, "tanh"}})));
    step_times("hierarchical", *load("hierarchical", anole::hierarchical(12, 64, 128, 4)));
    step_times(
        "GRU 128",
        *load("gru", anole::sequential(69, {{"dense", 128, "leaky-relu-0.2"}, {"gru", 128}, {"dense", 15}},
                                       "mixture")));
    step_times("GRU 1200", *load("gru-large", anole::sequential(50, {{"gru", 1200}, {"dense", 1, "tanh"}})));

    anole::Log log;
    const anole::Options options{folder.path() + "/socket", folder.path(), {}, 16};
    const anole::Server server(
        options, [&library](const std::string& file) { return library.open(file); }, log);
    for (const unsigned flows : {1U, 10U, 100U, 1000U}) round_trips(options.socket, mlp->shape(), flows);
    const anole::Counters& counters = server.counters();
    std::printf("rows per batch     %.1f\n",
                static_cast<double>(counters.answered) / static_cast<double>(counters.batches));
}

}  // namespace

int main(int argc, char** argv) {
    try {
        bench(argc > 1 ? argv[1] : "");
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "policy-bench: %s\n", error.what());
        return 1;
    }
}
