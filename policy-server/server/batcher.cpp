#include "batcher.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>

namespace anole {

using protocol::Status;

Connection::~Connection() {
    ::close(socket_);
}

void Connection::send(const protocol::Packet& packet) noexcept {
    const ssize_t sent = ::send(socket_, packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) counters_.unread++;
}

Batcher::Batcher(const Limits& limits, Counters& counters, Log& log)
    : limits_(limits), counters_(counters), log_(log) {
    batch_.reserve(limits_.max_batch);
    thread_ = std::thread([this] { run(); });
}

Batcher::~Batcher() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

bool Batcher::push(Request&& request) {
    const std::lock_guard<std::mutex> lock(mutex_);
    // One connection cannot take the whole queue from the others.
    const std::size_t share = std::max<std::size_t>(1, limits_.queue / 2);
    if (queue_.size() >= limits_.queue || request.connection->waiting_ >= share) {
        counters_.overloaded++;
        return false;
    }
    const bool sooner = queue_.empty() || due(request) < due_;
    if (sooner) due_ = due(request);
    request.connection->waiting_++;
    queue_.push_back(std::move(request));
    // Otherwise nothing changes for the thread that waits.
    if (sooner || queue_.size() == limits_.max_batch) changed_.notify_one();
    return true;
}

Clock::time_point Batcher::due(const Request& request) const {
    return request.received + std::min<Clock::duration>(limits_.window, request.step.budget / 2);
}

void Batcher::take() {
    batch_.clear();
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    // Meanwhile one may come that is due earlier.
    while (!stopping_ && queue_.size() < limits_.max_batch && Clock::now() < due_) {
        changed_.wait_until(lock, due_);
    }
    while (!stopping_ && !queue_.empty() && batch_.size() < limits_.max_batch) {
        queue_.front().connection->waiting_--;
        batch_.push_back(std::move(queue_.front()));
        queue_.pop_front();
    }
    due_ = Clock::time_point::max();
    for (const Request& request : queue_) due_ = std::min(due_, due(request));
}

void Batcher::run() {
    // The window is shorter than ten times the default slack of timers, 50 µs.
    ::prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
    for (;;) {
        take();
        if (batch_.empty()) return;
        try {
            std::map<const Policy*, std::vector<Request*>> groups;
            for (Request& request : batch_) groups[request.policy.get()].push_back(&request);
            for (const auto& each : groups) compute(each.second);
        } catch (const std::exception&) {
            // No memory, not even to say so. What was not answered is late for its asker; the next batch may
            // find room.
            counters_.failed++;
        }
    }
}

void Batcher::compute(const std::vector<Request*>& group) {
    const Policy& policy = *group.front()->policy;
    const Shape& shape = policy.shape();
    const auto now = Clock::now();
    std::vector<Request*> rows;
    inputs_.clear();
    states_.clear();
    for (Request* request : group) {
        if (now >= request->received + request->step.budget) {
            counters_.expired++;
            request->connection->send(protocol::no_result(request->id, request->handle, Status::Expired));
            continue;
        }
        rows.push_back(request);
        inputs_.insert(inputs_.end(), request->step.inputs.begin(), request->step.inputs.end());
        states_.insert(states_.end(), request->step.state.begin(), request->step.state.end());
    }
    if (rows.empty()) return;
    outputs_.resize(rows.size() * shape.outputs);
    try {
        policy.step(static_cast<std::uint32_t>(rows.size()), inputs_.data(), states_.data(), outputs_.data());
    } catch (const std::exception& exception) {
        log_.line(std::string("a batch failed: ") + exception.what());
        for (const Request* request : rows) {
            request->connection->send(protocol::no_result(request->id, request->handle, Status::Overloaded));
        }
        return;
    }
    counters_.batches++;
    counters_.answered += rows.size();
    for (std::size_t i = 0; i < rows.size(); i++) {
        rows[i]->connection->send(protocol::result(rows[i]->id, rows[i]->handle, &outputs_[i * shape.outputs],
                                                   shape.outputs, states_.data() + i * shape.state,
                                                   shape.state));
    }
}

}  // namespace anole
