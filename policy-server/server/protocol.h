// Packets between agents and the server, over a Unix SOCK_SEQPACKET socket: one message per packet,
// little-endian, at most MAX_PACKET bytes, beginning with a Header.
//
//   OPEN    64 ASCII characters of the schema's SHA-256, then the model's name
//   OPENED  u32 status, inputs, outputs, state; on failure a text. Header.model is the handle.
//   STEP    u32 budget in µs, u32 reserved, f32[inputs], f32[state]
//   RESULT  u32 status; when it is Ok, f32[outputs], f32[state]
//
// An answer has the id of its request. Flows' state travels with requests; the server keeps none.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy.h"

namespace anole::protocol {

constexpr std::size_t MAX_PACKET = std::size_t{256} << 10;
constexpr std::uint16_t VERSION = 1;

enum class Type : std::uint16_t { Open = 1, Opened = 2, Step = 3, Result = 4 };

enum class Status : std::uint32_t {
    Ok = 0,
    Expired = 1,     // the budget was over before the step was computed
    Overloaded = 2,  // the queue is full, or the step failed for want of memory: later, perhaps
    BadRequest = 3,  // the packet does not fit the model
    Gone = 4,        // there is no such model, or not under this schema (any more)
};

struct Header {
    std::uint16_t type;
    std::uint16_t version;
    std::uint32_t model;
    std::uint64_t id;
};
static_assert(sizeof(Header) == 16);

struct Open {
    std::string schema_sha256;
    std::string name;
};

struct Step {
    std::chrono::microseconds budget;
    std::vector<float> inputs;
    std::vector<float> state;
};

using Packet = std::vector<char>;

// The header of a packet, where it is one of this version.
std::optional<Header> parse_header(std::string_view packet);

// Body of an OPEN; nothing where it is malformed. A name is letters, digits, '-', '_' and '.', does not
// begin with '.', and has at most 64 characters, so that it is no path.
std::optional<Open> parse_open(std::string_view packet);

// Body of a STEP for a model of this shape.
std::optional<Step> parse_step(std::string_view packet, const Shape& shape);

// Whether a name may be that of a model.
bool is_model_name(std::string_view name);

// Whether the packets of a model of this shape are at most MAX_PACKET long.
bool fits(const Shape& shape);

Packet opened(std::uint64_t id, std::uint32_t handle, const Shape& shape);
Packet not_opened(std::uint64_t id, Status status, std::string_view text);
Packet result(std::uint64_t id, std::uint32_t handle, const float* outputs, std::size_t n_outputs,
              const float* state, std::size_t n_state);
Packet no_result(std::uint64_t id, std::uint32_t handle, Status status);

}  // namespace anole::protocol
