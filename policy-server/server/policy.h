// What the server needs of a policy: it is tested with policies that need no LibTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace anole {

// Sizes of one row in floats, and the hash of the schema in hexadecimal.
struct Shape {
    std::uint32_t inputs = 0;
    std::uint32_t outputs = 0;
    std::uint32_t state = 0;
    std::string schema_sha256;

    bool operator==(const Shape& other) const {
        return inputs == other.inputs && outputs == other.outputs && state == other.state &&
               schema_sha256 == other.schema_sha256;
    }
};

// A network with its weights, immutable; used by one thread at a time, freed by any.
class Policy {
  public:
    virtual ~Policy() = default;
    virtual const Shape& shape() const = 0;

    // Reads rows * inputs floats, reads and replaces rows * state, writes rows * outputs. Throws
    // std::runtime_error.
    virtual void step(std::uint32_t rows, const float* inputs, float* states, float* outputs) const = 0;
};

// Reads a policy file; throws std::runtime_error, whose message names the file.
using Loader = std::function<std::shared_ptr<const Policy>(const std::string& path)>;

}  // namespace anole
