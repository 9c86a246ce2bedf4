// Requests of many flows and connections, computed together.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "clock.h"
#include "log.h"
#include "policy.h"
#include "protocol.h"

namespace anole {

// Counted from the start; each may be read at any time.
struct Counters {
    std::atomic<std::uint64_t> answered{0};    // steps computed
    std::atomic<std::uint64_t> batches{0};     // … in so many calls
    std::atomic<std::uint64_t> expired{0};     // dropped, their budget was over
    std::atomic<std::uint64_t> overloaded{0};  // refused, the queue was full
    std::atomic<std::uint64_t> unread{0};      // answers lost: the client does not read
    std::atomic<std::uint64_t> refused{0};     // connections beyond the limit
    std::atomic<std::uint64_t> failed{0};      // batches given up for want of memory
};

// A client's socket. Sending never waits: what does not fit the socket's buffer is lost and counted.
class Connection {
  public:
    Connection(int socket, Counters& counters) : socket_(socket), counters_(counters) {}
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection();

    int socket() const { return socket_; }
    void send(const protocol::Packet& packet) noexcept;

  private:
    friend class Batcher;
    const int socket_;
    Counters& counters_;
    std::size_t waiting_ = 0;  // requests in the queue, under the batcher's lock
};

struct Request {
    std::shared_ptr<Connection> connection;
    std::shared_ptr<const Policy> policy;
    std::uint32_t handle;
    std::uint64_t id;
    Clock::time_point received;
    protocol::Step step;
};

struct Limits {
    // A batch is computed when one of its requests has waited so long, or for half of its budget …
    std::chrono::microseconds window{500};
    // … or as soon as it has this many.
    std::size_t max_batch = 256;
    // Requests that may wait; of one connection half as many.
    std::size_t queue = 4096;
};

// A bounded queue and the thread that computes.
class Batcher {
  public:
    Batcher(const Limits& limits, Counters& counters, Log& log);
    Batcher(const Batcher&) = delete;
    Batcher& operator=(const Batcher&) = delete;
    ~Batcher();

    // False, and counted, where the queue is full.
    bool push(Request&& request);

  private:
    void run();
    // When the batch with this request has to be computed.
    Clock::time_point due(const Request& request) const;
    // Waits for a batch and takes it; it is empty at the end.
    void take();
    void compute(const std::vector<Request*>& group);

    const Limits limits_;
    Counters& counters_;
    Log& log_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Request> queue_;
    Clock::time_point due_;  // the earliest of those in the queue
    bool stopping_ = false;
    // Of the computing thread alone, kept between batches.
    std::vector<Request> batch_;
    std::vector<float> inputs_, states_, outputs_;
    std::thread thread_;
};

}  // namespace anole
