#include "library.h"

#include <dlfcn.h>
#include <limits.h>
#include <unistd.h>

#include <stdexcept>
#include <vector>

#include "anole_policy.h"
#include "usage_error.h"

namespace anole {
namespace {

constexpr const char* NAME = "libanole_policy_torch.so";

// Places where the library is looked for when none is given.
std::vector<std::string> candidates() {
    std::vector<std::string> paths;
    char program[PATH_MAX];
    const ssize_t length = ::readlink("/proc/self/exe", program, sizeof(program));
    if (length > 0) {
        const std::string path(program, static_cast<std::size_t>(length));
        const std::string folder = path.substr(0, path.rfind('/'));
        for (const char* beside : {"/", "/../lib/"}) {
            const std::string candidate = folder + beside + NAME;
            if (::access(candidate.c_str(), R_OK) == 0) paths.push_back(candidate);
        }
    }
    paths.emplace_back(NAME);
    return paths;
}

// A policy of the library.
class LibraryPolicy : public Policy {
  public:
    LibraryPolicy(anole_policy* policy, decltype(&anole_policy_step) step,
                  decltype(&anole_policy_close) close, Shape shape)
        : policy_(policy), step_(step), close_(close), shape_(std::move(shape)) {}
    LibraryPolicy(const LibraryPolicy&) = delete;
    LibraryPolicy& operator=(const LibraryPolicy&) = delete;
    ~LibraryPolicy() override { close_(policy_); }

    const Shape& shape() const override { return shape_; }

    void step(std::uint32_t rows, const float* inputs, float* states, float* outputs) const override {
        char error[512] = "";
        if (step_(policy_, rows, inputs, states, outputs, error, sizeof(error)) != 0) {
            throw std::runtime_error(error);
        }
    }

  private:
    anole_policy* policy_;
    decltype(&anole_policy_step) step_;
    decltype(&anole_policy_close) close_;
    Shape shape_;
};

}  // namespace

template <typename Function>
Function* Library::symbol(const char* name) const {
    void* found = ::dlsym(handle_, name);
    if (found == nullptr) throw std::runtime_error(path_ + ": it lacks " + name);
    return reinterpret_cast<Function*>(found);
}

Library::Library(const std::string& path) {
    std::string failures;
    for (const std::string& candidate : path.empty() ? candidates() : std::vector<std::string>{path}) {
        handle_ = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
        path_ = candidate;
        if (handle_ != nullptr) break;
        failures += std::string("\n  ") + ::dlerror();
    }
    if (handle_ == nullptr) {
        throw UsageError("the library cannot be loaded; give its path with --library:" + failures);
    }
    const std::uint32_t abi = symbol<decltype(anole_policy_abi)>("anole_policy_abi")();
    if (abi != ANOLE_POLICY_ABI) {
        throw std::runtime_error(path_ + ": its interface has version " + std::to_string(abi) +
                                 ", and version " + std::to_string(ANOLE_POLICY_ABI) +
                                 " is needed; build both from one source");
    }
}

std::string Library::describe() const {
    char text[256] = "";
    symbol<decltype(anole_policy_describe)>("anole_policy_describe")(text, sizeof(text));
    return text;
}

void Library::set_threads(std::uint32_t threads) const {
    if (symbol<decltype(anole_policy_set_threads)>("anole_policy_set_threads")(threads) != 0) {
        throw UsageError("--threads " + std::to_string(threads) + ": from 1 to 64 are allowed");
    }
}

std::shared_ptr<const Policy> Library::open(const std::string& path) const {
    const auto open = symbol<decltype(anole_policy_open)>("anole_policy_open");
    const auto close = symbol<decltype(anole_policy_close)>("anole_policy_close");
    const auto step = symbol<decltype(anole_policy_step)>("anole_policy_step");
    const auto get_shape = symbol<decltype(anole_policy_get_shape)>("anole_policy_get_shape");

    char error[1024] = "";
    anole_policy* policy = open(path.c_str(), error, sizeof(error));
    if (policy == nullptr) throw std::runtime_error(error);
    anole_policy_shape shape{};
    get_shape(policy, &shape);
    return std::make_shared<LibraryPolicy>(
        policy, step, close, Shape{shape.inputs, shape.outputs, shape.state, shape.schema_sha256});
}

}  // namespace anole
