#include "reference_network.h"

#include <algorithm>
#include <cmath>

namespace anole {
namespace {

double sigmoid(double x) {
    return 1 / (1 + std::exp(-x));
}

double activate(double x, Activation activation) {
    switch (activation) {
        case Activation::Relu:
            return std::max(x, 0.0);
        case Activation::LeakyRelu02:
            return x > 0 ? x : 0.2 * x;
        case Activation::LeakyRelu001:
            return x > 0 ? x : 0.01 * x;
        case Activation::Tanh:
            return std::tanh(x);
        default:
            return x;
    }
}

std::vector<double> load(const float*& from, std::size_t n) {
    from += n;
    return {from - n, from};
}

void store(float*& to, const std::vector<double>& values) {
    for (const double value : values) *to++ = static_cast<float>(value);
}

}  // namespace

ReferenceNetwork::ReferenceNetwork(PolicyFile file)
    : file_(std::move(file)),
      shape_{file_.network.inputs, file_.network.outputs, file_.network.state, file_.schema_sha256} {}

ReferenceNetwork::Values ReferenceNetwork::affine(const std::string& weight, const std::string& bias,
                                                  const Values& x) const {
    const auto& w = file_.tensors.at(weight).values;
    const auto& b = file_.tensors.at(bias).values;
    Values y(b.begin(), b.end());
    for (std::size_t i = 0; i < y.size(); i++) {
        for (std::size_t j = 0; j < x.size(); j++) y[i] += w[i * x.size() + j] * x[j];
    }
    return y;
}

ReferenceNetwork::Values ReferenceNetwork::dense(const std::string& name, const Values& x) const {
    return affine(name + ".weight", name + ".bias", x);
}

ReferenceNetwork::Values ReferenceNetwork::layer_norm(const std::string& name, const Values& x) const {
    const auto& w = file_.tensors.at(name + ".weight").values;
    const auto& b = file_.tensors.at(name + ".bias").values;
    double mean = 0, variance = 0;
    for (const double value : x) mean += value / static_cast<double>(x.size());
    for (const double value : x) variance += (value - mean) * (value - mean) / static_cast<double>(x.size());
    Values y;
    for (std::size_t i = 0; i < x.size(); i++) {
        y.push_back((x[i] - mean) / std::sqrt(variance + 1e-5) * w[i] + b[i]);
    }
    return y;
}

ReferenceNetwork::Values ReferenceNetwork::convolution(const std::string& name, const Convolution& shape,
                                                       const Values& x) const {
    const auto& w = file_.tensors.at(name + ".weight").values;
    const auto& b = file_.tensors.at(name + ".bias").values;
    Values y;
    for (std::size_t out = 0; out < shape.after; out++) {
        for (std::size_t place = 0; place < shape.length_after(); place++) {
            double sum = b[out];
            for (std::size_t channel = 0; channel < shape.before; channel++) {
                for (std::size_t k = 0; k < shape.kernel; k++) {
                    const std::size_t padded = place * shape.stride + k;
                    if (padded < shape.padding || padded - shape.padding >= shape.length) continue;
                    const std::size_t at = padded - shape.padding;
                    sum += w[(out * shape.before + channel) * shape.kernel + k] *
                           x[shape.time_major ? at * shape.before + channel : channel * shape.length + at];
                }
            }
            y.push_back(sum);
        }
    }
    return y;
}

void ReferenceNetwork::lstm(const std::string& name, const Values& x, Values& h, Values& c) const {
    const Values gx = affine(name + ".weight_ih", name + ".bias_ih", x);
    const Values gh = affine(name + ".weight_hh", name + ".bias_hh", h);
    const std::size_t n = h.size();
    for (std::size_t k = 0; k < n; k++) {
        const auto gate = [&](std::size_t index) { return gx[index * n + k] + gh[index * n + k]; };
        c[k] = sigmoid(gate(1)) * c[k] + sigmoid(gate(0)) * std::tanh(gate(2));
        h[k] = sigmoid(gate(3)) * std::tanh(c[k]);
    }
}

void ReferenceNetwork::gru(const std::string& name, const Values& x, Values& h) const {
    const Values gx = affine(name + ".weight_ih", name + ".bias_ih", x);
    const Values gh = affine(name + ".weight_hh", name + ".bias_hh", h);
    const std::size_t n = h.size();
    for (std::size_t k = 0; k < n; k++) {
        const double r = sigmoid(gx[k] + gh[k]);
        const double z = sigmoid(gx[n + k] + gh[n + k]);
        const double candidate = std::tanh(gx[2 * n + k] + r * gh[2 * n + k]);
        h[k] = (1 - z) * candidate + z * h[k];
    }
}

ReferenceNetwork::Values ReferenceNetwork::row(const Sequential& network, Values x, float* state) const {
    std::vector<Values> given;
    for (std::size_t i = 0; i < network.layers.size(); i++) {
        const Layer& layer = network.layers[i];
        const std::string name = "layers." + std::to_string(i);
        const float* from = state;
        if (layer.kind == LayerKind::Dense) {
            x = dense(name, x);
        } else if (layer.kind == LayerKind::LayerNorm) {
            x = layer_norm(name, x);
        } else if (layer.kind == LayerKind::Conv1d) {
            x = convolution(name, layer.convolution, x);
        } else if (layer.kind == LayerKind::Add) {
            for (std::size_t k = 0; k < x.size(); k++) x[k] += given[layer.of][k];
        } else if (layer.kind == LayerKind::Lstm) {
            Values h = load(from, layer.units), c = load(from, layer.units);
            lstm(name, x, h, c);
            store(state, h);
            store(state, c);
            x = h;
        } else {
            Values h = load(from, layer.units);
            gru(name, x, h);
            store(state, h);
            x = h;
        }
        for (double& value : x) value = activate(value, layer.activation);
        given.push_back(x);
    }
    const auto index = [](auto begin, auto end) {
        return static_cast<double>(std::max_element(begin, end) - begin);
    };
    if (network.head == Head::Argmax) return {index(x.begin(), x.end())};
    if (network.head == Head::Direct) return x;
    const std::size_t components = x.size() / 3;
    const auto likeliest = index(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(components));
    return {x[components + static_cast<std::size_t>(likeliest)]};
}

ReferenceNetwork::Values ReferenceNetwork::row(const Hierarchical& network, Values x, float* state) const {
    const float* from = state;
    Values h_w = load(from, network.watcher), c_w = load(from, network.watcher);
    Values h_g = load(from, network.generator), c_g = load(from, network.generator);
    Values out = load(from, network.values);
    x.insert(x.end(), h_g.begin(), h_g.end());
    lstm("watcher", x, h_w, c_w);
    const bool triggered = dense("trigger", h_w)[0] > 0;
    if (triggered) {
        lstm("generator", h_w, h_g, c_g);
        out = dense("head", h_g);
        for (double& value : out) value = std::tanh(value);
    }
    for (const Values* part : {&h_w, &c_w, &h_g, &c_g, &out}) store(state, *part);
    out.push_back(triggered ? 1 : 0);
    return out;
}

void ReferenceNetwork::step(std::uint32_t rows, const float* inputs, float* states, float* outputs) const {
    for (std::uint32_t i = 0; i < rows; i++) {
        const Values x = load(inputs, shape_.inputs);
        store(outputs,
              std::visit([&](const auto& network) { return row(network, x, states); }, file_.network.kind));
        states += shape_.state;
    }
}

}  // namespace anole
