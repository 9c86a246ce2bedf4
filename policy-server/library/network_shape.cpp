#include "network_shape.h"

#include <nlohmann/json.hpp>

namespace anole {
namespace {

using nlohmann::json;

// No layer is wider and no network deeper: with them no product of sizes leaves 64 bits.
constexpr std::uint64_t MAX_WIDTH = 65536;
constexpr std::size_t MAX_LAYERS = 64;
// Of a convolution for one answer: as many as a file has weights, of which a dense layer takes each once.
constexpr std::uint64_t MAX_PRODUCTS = std::uint64_t{16} << 20;

const json& member(const json& object, const std::string& where, const char* key) {
    const auto found = object.find(key);
    if (found == object.end()) throw Refusal(where + " lacks \"" + key + "\"");
    return *found;
}

std::uint32_t width(const json& object, const std::string& where, const char* key, std::uint64_t least) {
    const json& value = member(object, where, key);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() < least ||
        value.get<std::uint64_t>() > MAX_WIDTH) {
        throw Refusal(where + "." + key + " is " + value.dump() + ", not a whole number from " +
                      std::to_string(least) + " to " + std::to_string(MAX_WIDTH));
    }
    return value.get<std::uint32_t>();
}

template <typename T>
T choice(const json& value, const std::string& where, const std::map<std::string, T>& choices) {
    if (value.is_string()) {
        const auto found = choices.find(value.get<std::string>());
        if (found != choices.end()) return found->second;
    }
    std::string known;
    for (const auto& each : choices) known += " " + each.first;
    throw Refusal(where + " is " + value.dump() + ", not one of:" + known);
}

Convolution parse_convolution(const json& layer, const std::string& where) {
    Convolution parsed{};
    const json& channels = member(layer, where, "channels");
    if (!channels.is_array() || channels.size() != 2) throw Refusal(where + ".channels is not a pair");
    const json pair = {{"before", channels[0]}, {"after", channels[1]}};
    parsed.before = width(pair, where + ".channels", "before", 1);
    parsed.after = width(pair, where + ".channels", "after", 1);
    parsed.length = width(layer, where, "length", 1);
    parsed.kernel = width(layer, where, "kernel", 1);
    parsed.stride = width(layer, where, "stride", 1);
    parsed.padding = width(layer, where, "padding", 0);
    const json& time_major = member(layer, where, "time_major");
    if (!time_major.is_boolean()) throw Refusal(where + ".time_major is not true or false");
    parsed.time_major = time_major.get<bool>();
    if (parsed.kernel > std::uint64_t{parsed.length} + 2 * std::uint64_t{parsed.padding}) {
        throw Refusal(where + ".kernel is longer than what it runs over");
    }
    return parsed;
}

Layer parse_layer(const json& layer, const std::string& where) {
    if (!layer.is_object()) throw Refusal(where + " is not an object");
    Layer parsed{};
    parsed.kind = choice<LayerKind>(member(layer, where, "kind"), where + ".kind",
                                    {{"dense", LayerKind::Dense},
                                     {"lstm", LayerKind::Lstm},
                                     {"gru", LayerKind::Gru},
                                     {"layer-norm", LayerKind::LayerNorm},
                                     {"add", LayerKind::Add},
                                     {"conv1d", LayerKind::Conv1d}});
    parsed.inputs = width(layer, where, "inputs", 1);
    parsed.units = width(layer, where, "units", 1);
    if (parsed.kind == LayerKind::Add) parsed.of = width(layer, where, "of", 0);
    if (parsed.kind == LayerKind::Conv1d) parsed.convolution = parse_convolution(layer, where);
    if (parsed.kind != LayerKind::Lstm && parsed.kind != LayerKind::Gru && layer.contains("activation")) {
        parsed.activation = choice<Activation>(layer.at("activation"), where + ".activation",
                                               {{"none", Activation::None},
                                                {"relu", Activation::Relu},
                                                {"leaky-relu-0.2", Activation::LeakyRelu02},
                                                {"leaky-relu-0.01", Activation::LeakyRelu001},
                                                {"tanh", Activation::Tanh}});
    }
    return parsed;
}

void must_equal(const std::string& what, std::uint64_t declared, std::uint64_t computed) {
    if (declared != computed) {
        throw Refusal(what + " is " + std::to_string(declared) + ", but the layers make it " +
                      std::to_string(computed));
    }
}

Sequential parse_sequential(const json& network, std::uint32_t inputs, std::uint32_t outputs,
                            std::uint32_t state) {
    const json& layers = member(network, "network", "layers");
    if (!layers.is_array() || layers.empty() || layers.size() > MAX_LAYERS) {
        throw Refusal("network.layers is not a list of 1 to " + std::to_string(MAX_LAYERS) + " layers");
    }
    Sequential parsed{};
    parsed.head =
        choice<Head>(member(network, "network", "head"), "network.head",
                     {{"direct", Head::Direct}, {"argmax", Head::Argmax}, {"mixture", Head::Mixture}});
    std::uint64_t flowing = inputs, carried = 0;
    for (std::size_t i = 0; i < layers.size(); i++) {
        const std::string where = "network.layers[" + std::to_string(i) + "]";
        parsed.layers.push_back(parse_layer(layers[i], where));
        const Layer& layer = parsed.layers.back();
        must_equal(where + ".inputs", layer.inputs, flowing);
        if (layer.kind == LayerKind::LayerNorm || layer.kind == LayerKind::Add) {
            must_equal(where + ".units", layer.units, flowing);
        }
        if (layer.kind == LayerKind::Add) {
            if (layer.of >= i) throw Refusal(where + ".of is not the number of an earlier layer");
            must_equal(where + ".units", layer.units, parsed.layers[layer.of].units);
        }
        if (layer.kind == LayerKind::Conv1d) {
            const Convolution& each = layer.convolution;
            must_equal(where + ".inputs", layer.inputs, std::uint64_t{each.before} * each.length);
            must_equal(where + ".units", layer.units, each.after * each.length_after());
            // Each of them is at most MAX_WIDTH.
            if (std::uint64_t{layer.units} * each.before * each.kernel > MAX_PRODUCTS) {
                throw Refusal(where + " takes more than " + std::to_string(MAX_PRODUCTS) +
                              " products for one answer");
            }
        }
        flowing = parsed.layers.back().units;
        carried += parsed.layers.back().state();
    }
    must_equal("network.state", state, carried);
    must_equal("network.outputs", outputs, parsed.head == Head::Direct ? flowing : 1);
    const Layer& last = parsed.layers.back();
    if (parsed.head == Head::Mixture && (last.kind != LayerKind::Dense || last.units % 3 != 0)) {
        throw Refusal(
            "the last layer under a mixture head is not dense with three units (logit, mean, log std) per "
            "component");
    }
    return parsed;
}

Hierarchical parse_hierarchical(const json& network, std::uint32_t outputs, std::uint32_t state) {
    Hierarchical parsed{};
    parsed.watcher = width(network, "network", "watcher", 1);
    parsed.generator = width(network, "network", "generator", 1);
    if (outputs < 2) throw Refusal("network.outputs is less than 2, a value and the trigger");
    parsed.values = outputs - 1;
    must_equal("network.state", state,
               2 * std::uint64_t{parsed.watcher} + 2 * std::uint64_t{parsed.generator} + parsed.values);
    return parsed;
}

// A recurrent cell of PyTorch with `gates` gates, or a dense layer, under a name.
void add_cell(std::map<std::string, TensorShape>& shapes, const std::string& name, std::uint64_t gates,
              std::uint64_t inputs, std::uint64_t units) {
    shapes[name + ".weight_ih"] = {gates * units, inputs};
    shapes[name + ".weight_hh"] = {gates * units, units};
    shapes[name + ".bias_ih"] = {gates * units};
    shapes[name + ".bias_hh"] = {gates * units};
}

void add_dense(std::map<std::string, TensorShape>& shapes, const std::string& name, std::uint64_t inputs,
               std::uint64_t units) {
    shapes[name + ".weight"] = {units, inputs};
    shapes[name + ".bias"] = {units};
}

}  // namespace

std::uint64_t Convolution::length_after() const {
    return (std::uint64_t{length} + 2 * std::uint64_t{padding} - kernel) / stride + 1;
}

std::uint32_t Layer::state() const {
    switch (kind) {
        case LayerKind::Lstm:
            return 2 * units;
        case LayerKind::Gru:
            return units;
        default:
            return 0;
    }
}

NetworkShape parse_network(const json& network) {
    if (!network.is_object()) throw Refusal("network is not an object");
    NetworkShape parsed{};
    parsed.inputs = width(network, "network", "inputs", 1);
    parsed.outputs = width(network, "network", "outputs", 1);
    // The state has up to 2 · MAX_WIDTH per layer, but no network that large passes the file's limit.
    parsed.state = width(network, "network", "state", 0);
    const bool sequential = choice<bool>(member(network, "network", "kind"), "network.kind",
                                         {{"sequential", true}, {"hierarchical", false}});
    if (sequential) {
        parsed.kind = parse_sequential(network, parsed.inputs, parsed.outputs, parsed.state);
    } else {
        parsed.kind = parse_hierarchical(network, parsed.outputs, parsed.state);
    }
    return parsed;
}

std::map<std::string, TensorShape> tensor_shapes(const NetworkShape& network) {
    std::map<std::string, TensorShape> shapes;
    if (const auto* sequential = std::get_if<Sequential>(&network.kind)) {
        for (std::size_t i = 0; i < sequential->layers.size(); i++) {
            const Layer& layer = sequential->layers[i];
            const std::string name = "layers." + std::to_string(i);
            const Convolution& convolution = layer.convolution;
            switch (layer.kind) {
                case LayerKind::Dense:
                    add_dense(shapes, name, layer.inputs, layer.units);
                    break;
                case LayerKind::Lstm:
                    add_cell(shapes, name, 4, layer.inputs, layer.units);
                    break;
                case LayerKind::Gru:
                    add_cell(shapes, name, 3, layer.inputs, layer.units);
                    break;
                case LayerKind::LayerNorm:
                    shapes[name + ".weight"] = shapes[name + ".bias"] = {layer.units};
                    break;
                case LayerKind::Conv1d:
                    shapes[name + ".weight"] = {convolution.after, convolution.before, convolution.kernel};
                    shapes[name + ".bias"] = {convolution.after};
                    break;
                case LayerKind::Add:
                    break;
            }
        }
    } else {
        const auto& spine = std::get<Hierarchical>(network.kind);
        add_cell(shapes, "watcher", 4, std::uint64_t{network.inputs} + spine.generator, spine.watcher);
        add_dense(shapes, "trigger", spine.watcher, 1);
        add_cell(shapes, "generator", 4, spine.watcher, spine.generator);
        add_dense(shapes, "head", spine.generator, spine.values);
    }
    return shapes;
}

}  // namespace anole
