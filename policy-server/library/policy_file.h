// The policy file: safetensors, whose "__metadata__" has one key "anole" with the manifest as JSON text.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "network_shape.h"

namespace anole {

// All weights together, and the JSON header, are at most this long, bytes.
constexpr std::uint64_t MAX_WEIGHTS_BYTES = std::uint64_t{64} << 20;
constexpr std::uint64_t MAX_HEADER_BYTES = std::uint64_t{1} << 20;

struct Tensor {
    TensorShape shape;
    std::vector<float> values;  // row after row, all finite
};

// A file that passed every check: its tensors are those of its network, whole, finite and with the
// hashes that the manifest gives.
struct PolicyFile {
    std::string name;
    std::string schema_sha256;
    NetworkShape network;
    std::map<std::string, Tensor> tensors;
};

// Checks the bytes of a policy file; throws Refusal, whose message does not name the file.
PolicyFile parse_policy(std::string_view bytes);

// Reads and checks a policy file; throws Refusal, whose message begins with the path.
PolicyFile read_policy(const std::string& path);

}  // namespace anole
