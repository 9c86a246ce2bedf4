// Where the server's socket is, and who may have it.
#pragma once

#include <string>

namespace anole {

// A listening SOCK_SEQPACKET socket at a path, for this user alone (mode 0600). Beside it lies PATH.lock,
// held by flock(2): the lock goes with the process, however it ends. A socket whose lock is free and which
// refuses connections is stale and replaced. The socket is removed at the end; the lock file stays, or two
// servers could lock two files of one name.
class ListeningSocket {
  public:
    // Throws std::runtime_error. Sets the process's umask for a moment: before threads are started.
    explicit ListeningSocket(const std::string& path);
    ListeningSocket(const ListeningSocket&) = delete;
    ListeningSocket& operator=(const ListeningSocket&) = delete;
    ~ListeningSocket();

    int socket() const { return socket_; }

  private:
    void close_all();

    const std::string path_;
    int lock_ = -1;
    int socket_ = -1;
    bool bound_ = false;
};

}  // namespace anole
