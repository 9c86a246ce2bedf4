// A server with networks that need no LibTorch, in this process.
#pragma once

#include <condition_variable>
#include <mutex>

#include "client.h"
#include "policy_writer.h"
#include "reference_network.h"
#include "server.h"

namespace anole {

// What its networks are asked for, and the state that they begin with.
inline const std::vector<float> INPUT = {0.5F, -0.25F};
inline const std::vector<float> ZEROS = {0, 0, 0};

// Stops the computing thread inside a step while it is closed, and notes how many rows each step had.
class Gate {
  public:
    void close() { set(true); }
    void open() { set(false); }

    void pass(std::uint32_t rows) {
        std::unique_lock<std::mutex> lock(mutex_);
        rows_.push_back(rows);
        changed_.notify_all();
        changed_.wait(lock, [this] { return !closed_; });
    }

    // Waits until so many steps have begun.
    void wait_for(std::size_t steps) {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return rows_.size() >= steps; });
    }

    // Rows of each step so far; forgets them.
    std::vector<std::uint32_t> take() {
        const std::lock_guard<std::mutex> lock(mutex_);
        return std::exchange(rows_, {});
    }

  private:
    void set(bool closed) {
        const std::lock_guard<std::mutex> lock(mutex_);
        closed_ = closed;
        changed_.notify_all();
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    bool closed_ = false;
    std::vector<std::uint32_t> rows_;
};

class GatedNetwork : public Policy {
  public:
    GatedNetwork(PolicyFile file, Gate& gate) : network_(std::move(file)), gate_(gate) {}
    const Shape& shape() const override { return network_.shape(); }
    void step(std::uint32_t rows, const float* inputs, float* states, float* outputs) const override {
        gate_.pass(rows);
        network_.step(rows, inputs, states, outputs);
    }

  private:
    const ReferenceNetwork network_;
    Gate& gate_;
};

// A folder with the policy "test" (2 inputs, 1 output, 3 of state) and a server over it.
struct Serving {
    static nlohmann::json network() { return sequential(2, {{"gru", 3}, {"dense", 1, "tanh"}}); }

    explicit Serving(Limits limits = {}, std::size_t max_connections = 256) {
        put("test", random_policy(network(), 1));
        server = std::make_unique<Server>(
            Options{socket(), folder.path(), limits, max_connections},
            [this](const std::string& path) {
                return std::make_shared<GatedNetwork>(read_policy(path), gate);
            },
            log);
        gate.take();
    }

    void put(const std::string& name, const PolicyParts& parts) { write_file(file(name), to_bytes(parts)); }
    std::string file(const std::string& name) const { return folder.path() + "/" + name + ".safetensors"; }
    std::string socket() const { return folder.path() + "/socket"; }

    // The hash under which random_policy() makes its policies.
    std::string schema() const { return random_policy(network(), 1).manifest["schema_sha256"]; }

    // What the network of a file answers: outputs, then state.
    static std::vector<float> expected(const PolicyParts& parts, const std::vector<float>& inputs,
                                       std::vector<float> state) {
        const ReferenceNetwork reference(parse_policy(to_bytes(parts)));
        std::vector<float> outputs(reference.shape().outputs);
        reference.step(1, inputs.data(), state.data(), outputs.data());
        outputs.insert(outputs.end(), state.begin(), state.end());
        return outputs;
    }

    TemporaryFolder folder;
    Log log;
    Gate gate;
    std::unique_ptr<Server> server;
};

constexpr std::uint32_t LONG_US = 60000000;

}  // namespace anole
