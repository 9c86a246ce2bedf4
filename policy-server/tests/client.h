// A client of the server for tests, and a folder that goes away.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol.h"

namespace anole {

class TemporaryFolder {
  public:
    TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder();
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

struct Opened {
    std::uint32_t status, inputs, outputs, state, handle;
    std::string text;
};

struct Answer {
    std::uint64_t id;
    std::uint32_t status;
    std::vector<float> values;  // outputs, then state
};

// Throws std::runtime_error where the server closes the connection or does not answer within 30 s.
class Client {
  public:
    // Tries until somebody listens, at most so long.
    explicit Client(const std::string& path, std::chrono::milliseconds patience = std::chrono::seconds(5));
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;
    ~Client();

    Opened open(const std::string& name, const std::string& schema_sha256);
    Answer step(std::uint32_t handle, std::uint64_t id, std::uint32_t budget_us,
                const std::vector<float>& inputs, const std::vector<float>& state);

    void send_step(std::uint32_t handle, std::uint64_t id, std::uint32_t budget_us,
                   const std::vector<float>& inputs, const std::vector<float>& state);
    Answer receive_answer();

    // Sends any bytes; false where the server has closed the connection.
    bool send(const std::string& bytes);
    // Nothing where the server has closed the connection.
    std::optional<std::string> receive();
    int socket() const { return socket_; }

  private:
    int socket_;
};

// A packet of any header and body.
std::string packet_of(std::uint16_t type, std::uint16_t version, std::uint32_t model, std::uint64_t id,
                      const std::string& body);

}  // namespace anole
