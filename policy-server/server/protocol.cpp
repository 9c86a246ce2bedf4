#include "protocol.h"

#include <algorithm>
#include <cstring>

namespace anole::protocol {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "packets are copied as they lie in memory");

constexpr std::size_t SHA256_HEX = 64;
constexpr std::size_t STEP_BODY = sizeof(Header) + 2 * sizeof(std::uint32_t);
constexpr std::size_t MAX_NAME = 64;

void append(Packet& packet, const void* data, std::size_t length) {
    const char* bytes = static_cast<const char*>(data);
    packet.insert(packet.end(), bytes, bytes + length);
}

Packet packet_of(Type type, std::uint64_t id, std::uint32_t model, std::size_t body) {
    const Header header{static_cast<std::uint16_t>(type), VERSION, model, id};
    Packet packet;
    packet.reserve(sizeof(header) + body);
    append(packet, &header, sizeof(header));
    return packet;
}

}  // namespace

std::optional<Header> parse_header(std::string_view packet) {
    Header header{};
    if (packet.size() < sizeof(header) || packet.size() > MAX_PACKET) return std::nullopt;
    std::memcpy(&header, packet.data(), sizeof(header));
    if (header.version != VERSION) return std::nullopt;
    return header;
}

std::optional<Open> parse_open(std::string_view packet) {
    if (packet.size() < sizeof(Header) + SHA256_HEX) return std::nullopt;
    packet.remove_prefix(sizeof(Header));
    const std::string_view name = packet.substr(SHA256_HEX);
    if (!is_model_name(name)) return std::nullopt;
    return Open{std::string(packet.substr(0, SHA256_HEX)), std::string(name)};
}

std::optional<Step> parse_step(std::string_view packet, const Shape& shape) {
    const std::size_t floats = std::size_t{shape.inputs} + shape.state;
    if (packet.size() != STEP_BODY + sizeof(float) * floats) return std::nullopt;
    std::uint32_t budget_us = 0;
    std::memcpy(&budget_us, packet.data() + sizeof(Header), sizeof(budget_us));
    Step step{std::chrono::microseconds(budget_us), std::vector<float>(shape.inputs),
              std::vector<float>(shape.state)};
    const char* at = packet.data() + STEP_BODY;
    if (shape.inputs > 0) std::memcpy(step.inputs.data(), at, sizeof(float) * shape.inputs);
    at += sizeof(float) * shape.inputs;
    if (shape.state > 0) std::memcpy(step.state.data(), at, sizeof(float) * shape.state);
    return step;
}

bool is_model_name(std::string_view name) {
    const auto allowed = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
               c == '_' || c == '.';
    };
    return !name.empty() && name.size() <= MAX_NAME && name[0] != '.' &&
           std::all_of(name.begin(), name.end(), allowed);
}

bool fits(const Shape& shape) {
    const std::uint64_t widest = std::uint64_t{std::max(shape.inputs, shape.outputs)} + shape.state;
    return STEP_BODY + sizeof(float) * widest <= MAX_PACKET;
}

Packet opened(std::uint64_t id, std::uint32_t handle, const Shape& shape) {
    const std::uint32_t body[] = {static_cast<std::uint32_t>(Status::Ok), shape.inputs, shape.outputs,
                                  shape.state};
    Packet packet = packet_of(Type::Opened, id, handle, sizeof(body));
    append(packet, body, sizeof(body));
    return packet;
}

Packet not_opened(std::uint64_t id, Status status, std::string_view text) {
    const std::uint32_t body[] = {static_cast<std::uint32_t>(status), 0, 0, 0};
    Packet packet = packet_of(Type::Opened, id, 0, sizeof(body) + text.size());
    append(packet, body, sizeof(body));
    append(packet, text.data(), text.size());
    return packet;
}

Packet result(std::uint64_t id, std::uint32_t handle, const float* outputs, std::size_t n_outputs,
              const float* state, std::size_t n_state) {
    const auto status = static_cast<std::uint32_t>(Status::Ok);
    Packet packet =
        packet_of(Type::Result, id, handle, sizeof(status) + sizeof(float) * (n_outputs + n_state));
    append(packet, &status, sizeof(status));
    append(packet, outputs, sizeof(float) * n_outputs);
    append(packet, state, sizeof(float) * n_state);
    return packet;
}

Packet no_result(std::uint64_t id, std::uint32_t handle, Status status) {
    const auto value = static_cast<std::uint32_t>(status);
    Packet packet = packet_of(Type::Result, id, handle, sizeof(value));
    append(packet, &value, sizeof(value));
    return packet;
}

}  // namespace anole::protocol
