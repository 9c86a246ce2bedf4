// The C interface over the rest: no exception passes it.
#include <algorithm>
#include <cstring>
#include <exception>
#include <string>

#include "anole_policy.h"
#include "torch_network.h"

struct anole_policy {
    anole_policy_shape shape;
    anole::TorchNetwork network;
};

namespace {

constexpr std::uint32_t MAX_THREADS = 64;
constexpr std::uint32_t MAX_ROWS = 65536;

void write_text(char* buffer, std::size_t length, const char* text) noexcept {
    if (buffer == nullptr || length == 0) return;
    const std::size_t copied = std::min(length - 1, std::strlen(text));
    std::memcpy(buffer, text, copied);
    buffer[copied] = '\0';
}

// Runs `body`; where it throws, writes why and returns `failed`.
template <typename T, typename Body>
T guarded(T failed, char* error, std::size_t error_len, const Body& body) noexcept {
    try {
        return body();
    } catch (const std::exception& exception) {
        write_text(error, error_len, exception.what());
    } catch (...) {
        write_text(error, error_len, "an exception that is none of the standard library's");
    }
    return failed;
}

}  // namespace

extern "C" {

#define ANOLE_EXPORT __attribute__((visibility("default")))

ANOLE_EXPORT uint32_t anole_policy_abi(void) {
    return ANOLE_POLICY_ABI;
}

ANOLE_EXPORT int anole_policy_describe(char* text, size_t len) {
    return guarded(0, text, len, [&] {
        const std::string line = anole::describe();
        write_text(text, len, line.c_str());
        return static_cast<int>(line.size());
    });
}

ANOLE_EXPORT int anole_policy_set_threads(uint32_t threads) {
    if (threads < 1 || threads > MAX_THREADS) return -1;
    return guarded(-1, nullptr, 0, [&] {
        anole::set_threads(threads);
        return 0;
    });
}

ANOLE_EXPORT anole_policy* anole_policy_open(const char* path, char* error, size_t error_len) {
    anole_policy* const none = nullptr;
    if (path == nullptr) {
        write_text(error, error_len, "no path is given");
        return none;
    }
    return guarded(none, error, error_len, [&] {
        const anole::PolicyFile file = anole::read_policy(path);
        anole_policy_shape shape{file.network.inputs, file.network.outputs, file.network.state, {}};
        write_text(shape.schema_sha256, sizeof(shape.schema_sha256), file.schema_sha256.c_str());
        return new anole_policy{shape, anole::TorchNetwork(file)};
    });
}

ANOLE_EXPORT void anole_policy_close(anole_policy* policy) {
    guarded(0, nullptr, 0, [&] {
        delete policy;
        return 0;
    });
}

ANOLE_EXPORT void anole_policy_get_shape(const anole_policy* policy, anole_policy_shape* shape) {
    if (policy != nullptr && shape != nullptr) *shape = policy->shape;
}

ANOLE_EXPORT int anole_policy_step(const anole_policy* policy, uint32_t rows, const float* inputs,
                                   float* states, float* outputs, char* error, size_t error_len) {
    if (policy == nullptr || inputs == nullptr || outputs == nullptr ||
        (states == nullptr && policy->shape.state > 0)) {
        write_text(error, error_len, "a pointer is NULL");
        return -1;
    }
    if (rows < 1 || rows > MAX_ROWS) {
        write_text(error, error_len, (std::to_string(rows) + " rows: from 1 to 65536 are allowed").c_str());
        return -1;
    }
    return guarded(-1, error, error_len, [&] {
        policy->network.step(rows, inputs, states, outputs);
        return 0;
    });
}

}  // extern "C"
