#include "policy_writer.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>

#include "sha256.h"

namespace anole {

using nlohmann::json;

json sequential(std::uint32_t inputs, const std::vector<LayerText>& layers, const std::string& head) {
    json list = json::array();
    std::uint32_t flowing = inputs, state = 0;
    for (const LayerText& layer : layers) {
        json each = {{"kind", layer.kind}, {"inputs", flowing}, {"units", layer.units}};
        if (layer.kind != "lstm" && layer.kind != "gru") each["activation"] = layer.activation;
        each.update(layer.more);
        list.push_back(each);
        flowing = layer.units;
        state += layer.kind == "lstm" ? 2 * layer.units : layer.kind == "gru" ? layer.units : 0;
    }
    return {{"kind", "sequential"}, {"inputs", inputs}, {"outputs", head == "direct" ? flowing : 1},
            {"state", state},       {"layers", list},   {"head", head}};
}

json hierarchical(std::uint32_t inputs, std::uint32_t watcher, std::uint32_t generator,
                  std::uint32_t values) {
    return {{"kind", "hierarchical"}, {"inputs", inputs},
            {"outputs", values + 1},  {"state", 2 * watcher + 2 * generator + values},
            {"watcher", watcher},     {"generator", generator}};
}

PolicyParts random_policy(const json& network, std::uint32_t seed, const std::string& schema) {
    PolicyParts parts;
    parts.manifest = {{"format", 1},
                      {"name", "test"},
                      {"schema", schema},
                      {"network", network},
                      {"action", "cwnd-exp"},
                      {"seed", seed},
                      {"training", json({})},
                      {"trained_by", "nobody"},
                      {"schema_sha256", sha256_hex(schema.data(), schema.size())}};
    std::mt19937 random(seed);
    const auto shapes = tensor_shapes(parse_network(network));
    for (const auto& [name, shape] : shapes) {
        const auto cell = shapes.find(name.substr(0, name.rfind('.')) + ".weight_hh");
        const auto dense = shapes.find(name.substr(0, name.rfind('.')) + ".weight");
        const TensorShape& of = (cell != shapes.end() ? cell : dense)->second;
        const auto fan = of.size() > 1 ? of[1] : 1;
        // Not std::uniform_real_distribution, whose sequence differs between libraries.
        const double bound = 1 / std::sqrt(static_cast<double>(fan));
        Tensor& tensor = parts.tensors[name];
        tensor.shape = shape;
        std::uint64_t size = 1;
        for (const std::uint64_t axis : shape) size *= axis;
        tensor.values.resize(size);
        for (float& value : tensor.values) {
            value = static_cast<float>(bound * (2.0 * random() / 4294967296.0 - 1));
        }
    }
    return parts;
}

std::string to_bytes(const PolicyParts& parts) {
    json header = json::object();
    std::string data;
    for (const auto& [name, tensor] : parts.tensors) {
        const std::size_t begin = data.size();
        data.append(reinterpret_cast<const char*>(tensor.values.data()),
                    sizeof(float) * tensor.values.size());
        header[name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
    }
    json manifest = parts.manifest;
    if (!manifest.contains("tensors_sha256")) {
        manifest["tensors_sha256"] = sha256_hex(data.data(), data.size());
    }
    header["__metadata__"] = {{"anole", manifest.dump()}};
    return to_bytes(header, data);
}

std::string to_bytes(const json& header, const std::string& data) {
    const std::string text = header.dump();
    const std::uint64_t length = text.size();
    std::string bytes(sizeof(length), '\0');
    std::memcpy(bytes.data(), &length, sizeof(length));
    return bytes + text + data;
}

void write_file(const std::string& path, const std::string& bytes) {
    std::ofstream(path + ".new", std::ios::binary) << bytes;
    if (std::rename((path + ".new").c_str(), path.c_str()) != 0) throw std::runtime_error(path);
}

}  // namespace anole
