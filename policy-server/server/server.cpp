#include "server.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace anole {
namespace {

using protocol::Status;
using protocol::Type;

// Packets that one client may have read before the others get their turn.
constexpr int PACKETS_PER_TURN = 64;
constexpr std::size_t MAX_HANDLES = 256;
// How long no connection is accepted when the process has no file descriptor left.
constexpr std::chrono::milliseconds ACCEPT_PAUSE{100};
// Refused connections are told of once in this time: agents come again every few seconds.
constexpr std::chrono::minutes REFUSAL_LINE_EVERY{1};
// Room for answers to one client that is late in reading; the kernel may give less.
constexpr int SEND_BUFFER_BYTES = 1 << 20;

bool add_to_epoll(int epoll, int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

Server::Server(const Options& options, Loader loader, Log& log)
    : options_(options),
      log_(log),
      listening_(options.socket),
      models_(options.models, std::move(loader), log),
      batcher_(options.limits, counters_, log),
      buffer_(protocol::MAX_PACKET) {
    epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
    stop_ = ::eventfd(0, EFD_CLOEXEC);
    if (epoll_ < 0 || stop_ < 0 || !add_to_epoll(epoll_, stop_) ||
        !add_to_epoll(epoll_, listening_.socket())) {
        throw std::runtime_error(std::string("epoll: ") + std::strerror(errno));
    }
    thread_ = std::thread([this] { run(); });
}

Server::~Server() {
    const std::uint64_t one = 1;
    if (::write(stop_, &one, sizeof(one)) == sizeof(one)) thread_.join();
    ::close(epoll_);
    ::close(stop_);
}

void Server::run() {
    bool accepting = true;
    Clock::time_point accept_at;
    for (;;) {
        epoll_event events[64];
        const int ready = ::epoll_wait(epoll_, events, 64, accepting ? -1 : wait_ms(accept_at));
        if (ready < 0 && errno != EINTR) {
            log_.line(std::string("epoll: ") + std::strerror(errno));
            return;
        }
        if (!accepting && Clock::now() >= accept_at) {
            accepting = add_to_epoll(epoll_, listening_.socket());
            accept_at = Clock::now() + ACCEPT_PAUSE;
        }
        for (int i = 0; i < ready; i++) {
            const int fd = events[i].data.fd;
            if (fd == stop_) return;
            if (fd == listening_.socket()) {
                if (!accept_one()) {
                    ::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
                    accepting = false;
                    accept_at = Clock::now() + ACCEPT_PAUSE;
                }
                continue;
            }
            const auto client = clients_.find(fd);
            if (client == clients_.end() || serve(client->second)) continue;
            // The socket is closed when the last of its requests is done.
            ::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
            ::shutdown(fd, SHUT_RDWR);
            clients_.erase(client);
        }
    }
}

bool Server::serve(Client& client) {
    try {
        return read_from(client);
    } catch (const std::exception&) {
        // No memory for what it asks: without it, there is some.
        return false;
    }
}

bool Server::accept_one() {
    try {
        return accept();
    } catch (const std::exception&) {
        return false;  // no memory: later, perhaps
    }
}

bool Server::accept() {
    const int fd = ::accept4(listening_.socket(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS) return true;
        log_.line(std::string("no connection can be accepted: ") + std::strerror(errno));
        return false;
    }
    std::shared_ptr<Connection> connection;
    try {
        connection = std::make_shared<Connection>(fd, counters_);
    } catch (const std::exception&) {
        ::close(fd);
        throw;
    }
    if (clients_.size() >= options_.max_connections) {
        counters_.refused++;
        if (Clock::now() >= next_refusal_line_) {
            next_refusal_line_ = Clock::now() + REFUSAL_LINE_EVERY;
            log_.line("connections are refused: there are " + std::to_string(clients_.size()) +
                      " already, as many as --max-connections allows; " + std::to_string(counters_.refused) +
                      " refused so far");
        }
        return true;
    }
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &SEND_BUFFER_BYTES, sizeof(SEND_BUFFER_BYTES));
    if (add_to_epoll(epoll_, fd)) clients_[fd] = Client{std::move(connection), {}};
    return true;
}

bool Server::read_from(Client& client) {
    for (int i = 0; i < PACKETS_PER_TURN; i++) {
        const ssize_t length =
            ::recv(client.connection->socket(), buffer_.data(), buffer_.size(), MSG_DONTWAIT | MSG_TRUNC);
        if (length < 0 && errno == EINTR) continue;
        if (length < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
        if (length == 0) return false;
        if (static_cast<std::size_t>(length) > buffer_.size()) {
            log_.line("a client was disconnected: its packet has " + std::to_string(length) + " bytes");
            return false;
        }
        const std::string_view packet(buffer_.data(), static_cast<std::size_t>(length));
        if (!handle_packet(client, packet, Clock::now())) return false;
    }
    return true;
}

bool Server::handle_packet(Client& client, std::string_view packet, Clock::time_point received) {
    const auto header = protocol::parse_header(packet);
    if (!header) {
        log_.line("a client was disconnected: its packet of " + std::to_string(packet.size()) +
                  " bytes has no header of version " + std::to_string(protocol::VERSION));
        return false;
    }
    switch (static_cast<Type>(header->type)) {
        case Type::Open:
            open(client, header->id, packet);
            return true;
        case Type::Step:
            step(client, *header, packet, received);
            return true;
        default:
            log_.line("a client was disconnected: its packet has type " + std::to_string(header->type));
            return false;
    }
}

void Server::open(Client& client, std::uint64_t id, std::string_view packet) {
    const auto answer = [&](Status status, const std::string& text) {
        client.connection->send(protocol::not_opened(id, status, text));
    };
    const auto asked = protocol::parse_open(packet);
    if (!asked) {
        answer(Status::BadRequest,
               "an OPEN is a SHA-256 in hexadecimal and a model's name: letters, digits, '-', '_' and '.', "
               "at most 64");
        return;
    }
    const auto slot = models_.find(asked->name);
    const auto policy = slot == nullptr ? nullptr : slot->policy();
    const std::string file = options_.models + "/" + asked->name + ".safetensors";
    if (policy == nullptr) {
        const std::string refusal = slot == nullptr ? "" : slot->refusal();
        answer(Status::Gone, refusal.empty() ? "the server has no " + file : refusal);
        return;
    }
    const Shape& shape = policy->shape();
    if (shape.schema_sha256 != asked->schema_sha256) {
        answer(Status::Gone, file + ": its schema has the sha256 " + shape.schema_sha256 +
                                 ", and the agent expects " + asked->schema_sha256);
        return;
    }
    // Opened again, as after a reload: the same handle.
    std::size_t handle = 0;
    while (handle < client.handles.size() &&
           !(client.handles[handle].slot == slot && client.handles[handle].shape == shape)) {
        handle++;
    }
    if (handle == MAX_HANDLES) {
        answer(Status::Overloaded, "a connection opens at most " + std::to_string(MAX_HANDLES) + " models");
        return;
    }
    if (handle == client.handles.size()) client.handles.push_back(Handle{slot, shape});
    client.connection->send(protocol::opened(id, static_cast<std::uint32_t>(handle), shape));
}

void Server::step(Client& client, const protocol::Header& header, std::string_view packet,
                  Clock::time_point received) {
    const auto answer = [&](Status status) {
        client.connection->send(protocol::no_result(header.id, header.model, status));
    };
    if (header.model >= client.handles.size()) {
        answer(Status::BadRequest);
        return;
    }
    const Handle& handle = client.handles[header.model];
    auto step = protocol::parse_step(packet, handle.shape);
    if (!step) {
        answer(Status::BadRequest);
        return;
    }
    auto policy = handle.slot->policy();
    if (policy == nullptr || !(policy->shape() == handle.shape)) {
        answer(Status::Gone);
        return;
    }
    Request request{client.connection, std::move(policy), header.model,
                    header.id,         received,          std::move(*step)};
    if (!batcher_.push(std::move(request))) answer(Status::Overloaded);
}

}  // namespace anole
