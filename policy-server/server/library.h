// libanole_policy_torch.so, loaded at run time: only then can the environment be set up before OpenBLAS
// reads it, and the server runs its tests without LibTorch.
#pragma once

#include <cstdint>
#include <string>

#include "policy.h"

namespace anole {

// The loaded library. It stays in the process for good: LibTorch does not survive dlclose(3).
class Library {
  public:
    // `path`: the library; where it is empty, beside the program, in ../lib, or on the system's search
    // path. Throws std::runtime_error.
    explicit Library(const std::string& path);

    std::string describe() const;
    void set_threads(std::uint32_t threads) const;
    std::shared_ptr<const Policy> open(const std::string& path) const;

  private:
    template <typename Function>
    Function* symbol(const char* name) const;

    void* handle_ = nullptr;
    std::string path_;
};

}  // namespace anole
