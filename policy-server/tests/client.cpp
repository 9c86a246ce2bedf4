#include "client.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <thread>

namespace anole {
namespace {

template <typename T>
T at(const std::string& bytes, std::size_t offset) {
    T value{};
    if (bytes.size() < offset + sizeof(value)) throw std::runtime_error("a short answer");
    std::memcpy(&value, bytes.data() + offset, sizeof(value));
    return value;
}

template <typename T>
void append(std::string& bytes, const T* values, std::size_t n) {
    bytes.append(reinterpret_cast<const char*>(values), n * sizeof(T));
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
    char name[] = "/tmp/anole-policy-XXXXXX";
    if (::mkdtemp(name) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::string packet_of(std::uint16_t type, std::uint16_t version, std::uint32_t model, std::uint64_t id,
                      const std::string& body) {
    std::string packet;
    append(packet, &type, 1);
    append(packet, &version, 1);
    append(packet, &model, 1);
    append(packet, &id, 1);
    return packet + body;
}

Client::Client(const std::string& path, std::chrono::milliseconds patience) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    const auto until = std::chrono::steady_clock::now() + patience;
    for (;;) {
        socket_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) break;
        ::close(socket_);
        if (std::chrono::steady_clock::now() > until) throw std::runtime_error("nobody listens at " + path);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    const timeval patience_for_answers{30, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience_for_answers, sizeof(patience_for_answers));
    const int room = 1 << 20;
    ::setsockopt(socket_, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
}

Client::~Client() {
    ::close(socket_);
}

bool Client::send(const std::string& bytes) {
    return ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

std::optional<std::string> Client::receive() {
    std::string buffer(protocol::MAX_PACKET, '\0');
    const ssize_t length = ::recv(socket_, buffer.data(), buffer.size(), 0);
    if (length < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) throw std::runtime_error("no answer");
    if (length <= 0) return std::nullopt;
    buffer.resize(static_cast<std::size_t>(length));
    return buffer;
}

Opened Client::open(const std::string& name, const std::string& schema_sha256) {
    send(packet_of(1, 1, 0, 77, schema_sha256 + name));
    const auto packet = receive();
    if (!packet) throw std::runtime_error("disconnected");
    if (at<std::uint16_t>(*packet, 0) != 2 || at<std::uint64_t>(*packet, 8) != 77) {
        throw std::runtime_error("not the answer to an OPEN");
    }
    return Opened{at<std::uint32_t>(*packet, 16), at<std::uint32_t>(*packet, 20),
                  at<std::uint32_t>(*packet, 24), at<std::uint32_t>(*packet, 28),
                  at<std::uint32_t>(*packet, 4),  packet->substr(32)};
}

void Client::send_step(std::uint32_t handle, std::uint64_t id, std::uint32_t budget_us,
                       const std::vector<float>& inputs, const std::vector<float>& state) {
    std::string body;
    const std::uint32_t reserved = 0;
    append(body, &budget_us, 1);
    append(body, &reserved, 1);
    append(body, inputs.data(), inputs.size());
    append(body, state.data(), state.size());
    if (!send(packet_of(3, 1, handle, id, body))) throw std::runtime_error("disconnected");
}

Answer Client::receive_answer() {
    const auto packet = receive();
    if (!packet) throw std::runtime_error("disconnected");
    if (at<std::uint16_t>(*packet, 0) != 4) throw std::runtime_error("not a RESULT");
    Answer answer{at<std::uint64_t>(*packet, 8), at<std::uint32_t>(*packet, 16),
                  std::vector<float>((packet->size() - 20) / sizeof(float))};
    if (!answer.values.empty()) {
        std::memcpy(answer.values.data(), packet->data() + 20, answer.values.size() * sizeof(float));
    }
    return answer;
}

Answer Client::step(std::uint32_t handle, std::uint64_t id, std::uint32_t budget_us,
                    const std::vector<float>& inputs, const std::vector<float>& state) {
    send_step(handle, id, budget_us, inputs, state);
    return receive_answer();
}

}  // namespace anole
