// What a network looks like without its weights: the manifest's "network", checked.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace anole {

// Why a policy file is refused. The message names what differs; `read_policy` puts the file before it.
struct Refusal : std::runtime_error {
    using std::runtime_error::runtime_error;
};

enum class LayerKind { Dense, Lstm, Gru, LayerNorm, Add, Conv1d };
enum class Activation { None, Relu, LeakyRelu02, LeakyRelu001, Tanh };
enum class Head { Direct, Argmax, Mixture };

// A convolution over one axis: channels before and after, values per channel before, and the kernel's.
struct Convolution {
    std::uint32_t before, after, length, kernel, stride, padding;
    // The values before have the channel as the fast axis.
    bool time_major;

    // Values per channel after.
    std::uint64_t length_after() const;
};

// One layer; the activation is that of layers without state.
struct Layer {
    LayerKind kind;
    std::uint32_t inputs;
    std::uint32_t units;
    Activation activation;
    // Number of the layer whose values Add adds.
    std::uint32_t of;
    Convolution convolution;

    // Width of its part of the state: h and c, h, or nothing.
    std::uint32_t state() const;
};

// Layers one after the other, then a head. The state holds each recurrent layer's part in order, of an
// LSTM h before c.
struct Sequential {
    std::vector<Layer> layers;
    Head head;
};

// Spine, section 3: a watcher LSTM sees [input, generator's h] and emits a trigger; where that is
// positive, a generator LSTM runs on the watcher's new h and a tanh head gives new values. The trigger
// (0 or 1) is the last output. State: watcher's h and c, generator's h and c, values.
struct Hierarchical {
    std::uint32_t watcher;
    std::uint32_t generator;
    std::uint32_t values;
};

struct NetworkShape {
    std::uint32_t inputs;
    std::uint32_t outputs;
    std::uint32_t state;
    std::variant<Sequential, Hierarchical> kind;
};

using TensorShape = std::vector<std::uint64_t>;

// Reads and checks the manifest's "network"; throws Refusal.
NetworkShape parse_network(const nlohmann::json& network);

// The tensors that a network of this shape consists of, in PyTorch's layouts.
std::map<std::string, TensorShape> tensor_shapes(const NetworkShape& network);

}  // namespace anole
