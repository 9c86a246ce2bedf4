// A network made of ATen operations.
#pragma once

#include <cstdint>
#include <memory>

#include "policy_file.h"

namespace anole {

// A network with its weights; immutable, one value serves all flows and threads. This header is free of
// LibTorch's, so that only one file is compiled against them.
class TorchNetwork {
  public:
    explicit TorchNetwork(const PolicyFile& file);
    TorchNetwork(const TorchNetwork&) = delete;
    TorchNetwork& operator=(const TorchNetwork&) = delete;
    ~TorchNetwork();

    // Computes `rows` rows, as anole_policy_step(). Throws what LibTorch throws; the states are then as
    // they were.
    void step(std::uint32_t rows, const float* inputs, float* states, float* outputs) const;

  private:
    struct Weights;
    NetworkShape shape_;
    std::unique_ptr<const Weights> weights_;
};

// Threads per operation, for the whole process.
void set_threads(std::uint32_t threads);

// One line: LibTorch's version, BLAS and its core, threads.
std::string describe();

}  // namespace anole
