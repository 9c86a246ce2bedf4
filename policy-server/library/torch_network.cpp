#include "torch_network.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <dlfcn.h>
#include <torch/version.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace anole {
namespace {

std::atomic<std::uint32_t> threads_per_operation{1};

at::Tensor tensor_of(const PolicyFile& file, const std::string& name) {
    const Tensor& tensor = file.tensors.at(name);
    const std::vector<std::int64_t> sizes(tensor.shape.begin(), tensor.shape.end());
    return at::from_blob(const_cast<float*>(tensor.values.data()), sizes, at::kFloat).clone();
}

// weight · x + bias of every row. A row alone goes through the product of a matrix and a vector: that of two
// matrices makes OpenBLAS rearrange all weights first, which costs several times the product.
at::Tensor affine(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
    return x.size(0) == 1 ? at::addmv(bias, weight, x.select(0, 0)).unsqueeze(0)
                          : at::linear(x, weight, bias);
}

// Weights of a dense layer.
struct Dense {
    at::Tensor weight, bias;

    Dense(const PolicyFile& file, const std::string& name)
        : weight(tensor_of(file, name + ".weight")), bias(tensor_of(file, name + ".bias")) {}

    at::Tensor operator()(const at::Tensor& x) const { return affine(x, weight, bias); }
};

// Weights of a recurrent cell.
struct Cell {
    at::Tensor weight_ih, weight_hh, bias_ih, bias_hh;

    Cell(const PolicyFile& file, const std::string& name)
        : weight_ih(tensor_of(file, name + ".weight_ih")),
          weight_hh(tensor_of(file, name + ".weight_hh")),
          bias_ih(tensor_of(file, name + ".bias_ih")),
          bias_hh(tensor_of(file, name + ".bias_hh")) {}

    // Gates in the order i, f, g, o, as torch.nn.LSTMCell has them; the new h and c.
    std::tuple<at::Tensor, at::Tensor> lstm(const at::Tensor& x, const at::Tensor& h,
                                            const at::Tensor& c) const {
        const at::Tensor gates = affine(x, weight_ih, bias_ih).add_(affine(h, weight_hh, bias_hh));
        const std::int64_t units = h.size(1);
        // Input and forget gate lie side by side.
        const at::Tensor i_f = gates.narrow(1, 0, 2 * units).sigmoid_();
        const at::Tensor g = gates.narrow(1, 2 * units, units).tanh_();
        const at::Tensor o = gates.narrow(1, 3 * units, units).sigmoid_();
        const at::Tensor next = at::mul(i_f.narrow(1, units, units), c).addcmul_(i_f.narrow(1, 0, units), g);
        return {at::tanh(next).mul_(o), next};
    }

    // Gates in the order r, z, n, as torch.nn.GRUCell has them; the new h.
    at::Tensor gru(const at::Tensor& x, const at::Tensor& h) const {
        const at::Tensor of_x = affine(x, weight_ih, bias_ih), of_h = affine(h, weight_hh, bias_hh);
        const std::int64_t units = h.size(1);
        const at::Tensor r_z = of_x.narrow(1, 0, 2 * units).add_(of_h.narrow(1, 0, 2 * units)).sigmoid_();
        const at::Tensor r = r_z.narrow(1, 0, units), z = r_z.narrow(1, units, units);
        const at::Tensor n =
            of_x.narrow(1, 2 * units, units).addcmul_(r, of_h.narrow(1, 2 * units, units)).tanh_();
        return at::lerp(n, h, z);
    }
};

// What a layer with weight and bias alone gives before its activation.
at::Tensor apply(const Layer& layer, const Dense& weights, const at::Tensor& x) {
    if (layer.kind == LayerKind::Dense) return weights(x);
    if (layer.kind == LayerKind::LayerNorm) {
        return at::layer_norm(x, {layer.units}, weights.weight, weights.bias);
    }
    const Convolution& shape = layer.convolution;
    const std::int64_t channels = shape.before, length = shape.length;
    const at::Tensor rows = shape.time_major ? x.reshape({-1, length, channels}).transpose(1, 2)
                                             : x.reshape({-1, channels, length});
    return at::conv1d(rows, weights.weight, weights.bias, {shape.stride}, {shape.padding}).flatten(1);
}

void activate(at::Tensor& x, Activation activation) {
    switch (activation) {
        case Activation::None:
            return;
        case Activation::Relu:
            at::relu_(x);
            return;
        case Activation::LeakyRelu02:
            at::leaky_relu_(x, 0.2);
            return;
        case Activation::LeakyRelu001:
            at::leaky_relu_(x, 0.01);
            return;
        case Activation::Tanh:
            at::tanh_(x);
            return;
    }
}

at::Tensor apply_head(const at::Tensor& x, Head head) {
    switch (head) {
        case Head::Argmax:
            return at::argmax(x, 1, true).to(at::kFloat);
        case Head::Mixture: {
            const std::int64_t components = x.size(1) / 3;
            const auto likeliest = at::argmax(x.narrow(1, 0, components), 1, true);
            return at::gather(x.narrow(1, components, components), 1, likeliest);
        }
        default:
            return x;
    }
}

}  // namespace

struct TorchNetwork::Weights {
    // Of a sequential network, at most one of the two per layer.
    std::vector<std::pair<std::optional<Dense>, std::optional<Cell>>> layers;
    // Of a hierarchical network.
    std::optional<Cell> watcher, generator;
    std::optional<Dense> trigger, head;

    Weights(const PolicyFile& file) {
        if (const auto* sequential = std::get_if<Sequential>(&file.network.kind)) {
            for (std::size_t i = 0; i < sequential->layers.size(); i++) {
                const std::string name = "layers." + std::to_string(i);
                layers.emplace_back();
                const LayerKind kind = sequential->layers[i].kind;
                if (kind == LayerKind::Lstm || kind == LayerKind::Gru) {
                    layers.back().second.emplace(file, name);
                } else if (kind != LayerKind::Add) {
                    layers.back().first.emplace(file, name);
                }
            }
        } else {
            watcher.emplace(file, "watcher");
            trigger.emplace(file, "trigger");
            generator.emplace(file, "generator");
            head.emplace(file, "head");
        }
    }

    // The output, and the parts of the new state in order.
    std::pair<at::Tensor, std::vector<at::Tensor>> step(const Sequential& shape, at::Tensor x,
                                                        const at::Tensor& state) const {
        std::vector<at::Tensor> next, given;
        std::int64_t at = 0;
        for (std::size_t i = 0; i < layers.size(); i++) {
            const Layer& layer = shape.layers[i];
            const auto part = [&](std::int64_t n) {
                return state.narrow(1, at + n * layer.units, layer.units);
            };
            if (layer.kind == LayerKind::Lstm) {
                auto [h, c] = layers[i].second->lstm(x, part(0), part(1));
                x = h;
                next.insert(next.end(), {h, c});
            } else if (layer.kind == LayerKind::Gru) {
                x = layers[i].second->gru(x, part(0));
                next.push_back(x);
            } else {
                x = layer.kind == LayerKind::Add ? at::add(x, given[layer.of])
                                                 : apply(layer, *layers[i].first, x);
                activate(x, layer.activation);
            }
            given.push_back(x);
            at += layer.state();
        }
        return {apply_head(x, shape.head), std::move(next)};
    }

    std::pair<at::Tensor, std::vector<at::Tensor>> step(const Hierarchical& shape, const at::Tensor& x,
                                                        const at::Tensor& state) const {
        const std::int64_t w = shape.watcher, g = shape.generator;
        const at::Tensor h_g = state.narrow(1, 2 * w, g);
        const at::Tensor c_g = state.narrow(1, 2 * w + g, g);
        const at::Tensor values = state.narrow(1, 2 * w + 2 * g, shape.values);

        auto [h_w, c_w] = watcher->lstm(at::cat({x, h_g}, 1), state.narrow(1, 0, w), state.narrow(1, w, w));
        const at::Tensor triggered = at::gt((*trigger)(h_w), 0.0);
        const at::Tensor last = triggered.to(at::kFloat);
        if (!triggered.any().item<bool>()) {
            return {at::cat({values, last}, 1), {h_w, c_w, h_g, c_g, values}};
        }
        // The generator sees the rows that are triggered and no others.
        const at::Tensor rows = at::nonzero(triggered.squeeze(1)).squeeze(1);
        const auto of = [&rows](const at::Tensor& all) { return at::index_select(all, 0, rows); };
        auto [h_new, c_new] = generator->lstm(of(h_w), of(h_g), of(c_g));
        const at::Tensor h = at::index_copy(h_g, 0, rows, h_new);
        const at::Tensor c = at::index_copy(c_g, 0, rows, c_new);
        const at::Tensor out = at::index_copy(values, 0, rows, at::tanh((*head)(h_new)));
        return {at::cat({out, last}, 1), {h_w, c_w, h, c, out}};
    }
};

TorchNetwork::TorchNetwork(const PolicyFile& file)
    : shape_(file.network), weights_([&file] {
          const c10::InferenceMode inference;
          static std::once_flag once;
          std::call_once(once, [] { set_threads(threads_per_operation); });
          return std::make_unique<const Weights>(file);
      }()) {}

TorchNetwork::~TorchNetwork() = default;

void TorchNetwork::step(std::uint32_t rows, const float* inputs, float* states, float* outputs) const {
    const c10::InferenceMode inference;
    // OpenMP keeps the number of threads per calling thread.
    thread_local std::uint32_t threads_here = 0;
    if (threads_here != threads_per_operation) {
        threads_here = threads_per_operation;
        at::set_num_threads(static_cast<int>(threads_here));
    }
    const std::int64_t n = rows;
    const at::Tensor x = at::from_blob(const_cast<float*>(inputs), {n, shape_.inputs}, at::kFloat);
    const at::Tensor state = shape_.state == 0 ? at::empty({n, 0}, at::kFloat)
                                               : at::from_blob(states, {n, shape_.state}, at::kFloat);
    const auto [out, next] =
        std::visit([&](const auto& shape) { return weights_->step(shape, x, state); }, shape_.kind);
    at::from_blob(outputs, {n, shape_.outputs}, at::kFloat).copy_(out);
    std::int64_t at = 0;
    for (const at::Tensor& part : next) {
        at::Tensor place = state.narrow(1, at, part.size(1));
        if (place.data_ptr() != part.data_ptr()) place.copy_(part);
        at += part.size(1);
    }
}

void set_threads(std::uint32_t threads) {
    threads_per_operation = threads;
    at::set_num_threads(static_cast<int>(threads));
    // Debian's OpenBLAS has threads of its own.
    using SetThreads = void (*)(int);
    if (const auto set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"))) {
        set(static_cast<int>(threads));
    }
}

std::string describe() {
    std::string blas;
    using Corename = const char* (*)();
    if (const auto corename = reinterpret_cast<Corename>(dlsym(RTLD_DEFAULT, "openblas_get_corename"))) {
        blas = std::string("OpenBLAS ") + corename();
    } else if (at::hasMKL()) {
        blas = "MKL";
    } else if (Dl_info info{};
               dladdr(dlsym(RTLD_DEFAULT, "sgemm_"), &info) != 0 && info.dli_fname != nullptr) {
        char* real = ::realpath(info.dli_fname, nullptr);
        const std::string library = real == nullptr ? info.dli_fname : real;
        std::free(real);
        blas = library.find("/blas/libblas") != std::string::npos
                   ? "reference BLAS, 7 to 50 times slower than OpenBLAS: install libopenblas0-pthread"
                   : "BLAS " + library;
    } else {
        blas = "BLAS built in";
    }
    const std::uint32_t threads = threads_per_operation;
    return "LibTorch " TORCH_VERSION ", " + blas + ", " + std::to_string(threads) +
           (threads == 1 ? " thread" : " threads");
}

}  // namespace anole
