// The server: a thread that reads sockets, one that computes (Batcher), one that follows files (Models).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "batcher.h"
#include "log.h"
#include "models.h"
#include "policy.h"
#include "socket_path.h"

namespace anole {

struct Options {
    std::string socket;  // path
    std::string models;  // directory
    Limits limits;
    std::size_t max_connections = 256;
};

class Server {
  public:
    // Serves until destroyed. Throws std::runtime_error.
    Server(const Options& options, Loader loader, Log& log);
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    ~Server();

    const Counters& counters() const { return counters_; }

  private:
    // What an OPEN gave: the model's place and its shape then.
    struct Handle {
        std::shared_ptr<const Slot> slot;
        Shape shape;
    };
    struct Client {
        std::shared_ptr<Connection> connection;
        std::vector<Handle> handles;
    };

    void run();
    // False where none can be accepted now.
    bool accept_one();
    bool accept();
    // False where the client is to be disconnected.
    bool serve(Client& client);
    bool read_from(Client& client);
    bool handle_packet(Client& client, std::string_view packet, Clock::time_point received);
    void open(Client& client, std::uint64_t id, std::string_view packet);
    void step(Client& client, const protocol::Header& header, std::string_view packet,
              Clock::time_point received);

    const Options options_;
    Log& log_;
    Counters counters_;
    ListeningSocket listening_;
    Models models_;
    Batcher batcher_;
    std::map<int, Client> clients_;
    std::vector<char> buffer_;
    Clock::time_point next_refusal_line_;
    int epoll_ = -1;
    int stop_ = -1;
    std::thread thread_;
};

}  // namespace anole
