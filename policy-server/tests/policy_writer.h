// Policy files for tests and benchmarks, with random weights.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "policy_file.h"

namespace anole {

// A policy file in parts, so that a test can spoil one of them.
struct PolicyParts {
    nlohmann::json manifest;
    std::map<std::string, Tensor> tensors;
};

// The manifest's "network" of layers such as {"dense", 512, "tanh"}, with the sizes that follow.
struct LayerText {
    std::string kind;
    std::uint32_t units;
    std::string activation = "none";
    // Further keys, of "add" and "conv1d".
    nlohmann::json more = nlohmann::json::object();
};
nlohmann::json sequential(std::uint32_t inputs, const std::vector<LayerText>& layers,
                          const std::string& head = "direct");
nlohmann::json hierarchical(std::uint32_t inputs, std::uint32_t watcher, std::uint32_t generator,
                            std::uint32_t values);

// A whole policy whose weights are uniform in ±1/√inputs (±1/√units of recurrent cells), as PyTorch's are
// at first.
PolicyParts random_policy(const nlohmann::json& network, std::uint32_t seed,
                          const std::string& schema = "name = \"test\"\n");

// The file, with the hash of the tensors unless the manifest has one.
std::string to_bytes(const PolicyParts& parts);

// A safetensors file of any header and data.
std::string to_bytes(const nlohmann::json& header, const std::string& data);

// Writes beside the path and renames.
void write_file(const std::string& path, const std::string& bytes);

}  // namespace anole
