#include "socket_path.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "usage_error.h"

namespace anole {
namespace {

// A file under this name alone: not a link to somebody's data.
bool is_lock_file(int file) {
    struct stat found {};
    return ::fstat(file, &found) == 0 && S_ISREG(found.st_mode) && found.st_nlink == 1;
}

// Whether nobody holds the socket at this address. A datagram socket cannot disturb a listener: it is refused
// with EPROTOTYPE where a socket of another type lives, and with ECONNREFUSED where none does, or ENOENT
// where none is.
bool is_stale(const sockaddr_un& address) {
    const int probe = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (probe < 0) return false;
    const auto* generic = reinterpret_cast<const sockaddr*>(&address);
    const bool refused = ::connect(probe, generic, sizeof(address)) != 0;
    const bool stale = refused && (errno == ECONNREFUSED || errno == ENOENT);
    ::close(probe);
    return stale;
}

}  // namespace

ListeningSocket::ListeningSocket(const std::string& path) : path_(path) {
    const auto fail = [this](const std::string& what) {
        close_all();
        return UsageError("--socket " + path_ + ": " + what);
    };
    const auto system_error = [&fail](const char* what) {
        return fail(std::string("cannot ") + what + " (" + std::strerror(errno) +
                    "); its directory has to exist and be writable");
    };

    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof(address.sun_path)) {
        throw fail("a path of 1 to " + std::to_string(sizeof(address.sun_path) - 1) +
                   " bytes is needed; give another one");
    }
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);

    const auto exists = [&] {
        struct stat found {};
        if (::lstat(path.c_str(), &found) != 0) return false;
        if (S_ISSOCK(found.st_mode)) return true;
        throw fail("this exists and is not a socket; move it away, or give another path");
    };
    // Before a lock file is made beside something else; what is there shows under the lock alone.
    exists();
    // Not blocking: a FIFO may lie there.
    lock_ = ::open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (lock_ < 0 && errno != ELOOP && errno != EISDIR) throw system_error("open the lock file beside it");
    if (lock_ < 0 || !is_lock_file(lock_)) {
        throw fail(
            path +
            ".lock is no lock file (it is a link, has a second name, or is no file); move it away, or " +
            "give another path");
    }
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) throw system_error("lock the file beside it");
        throw fail("another server is running there; stop it, or give another path");
    }
    const bool left_behind = exists();
    if (left_behind && !is_stale(address)) {
        throw fail("a program that holds no lock is listening there; stop it, or give another path");
    }
    if (left_behind && ::unlink(path.c_str()) != 0 && errno != ENOENT) {
        throw system_error("remove the stale socket");
    }

    socket_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket_ < 0) throw system_error("make a socket");
    const mode_t before = ::umask(0177);
    bound_ = ::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    ::umask(before);
    if (!bound_) throw system_error("bind the socket");
    if (::listen(socket_, 128) != 0) throw system_error("listen");
}

ListeningSocket::~ListeningSocket() {
    close_all();
}

void ListeningSocket::close_all() {
    if (bound_) ::unlink(path_.c_str());
    if (socket_ >= 0) ::close(socket_);
    if (lock_ >= 0) ::close(lock_);
}

}  // namespace anole
