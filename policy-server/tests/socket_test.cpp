// Who may have a path as the server's socket.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "client.h"
#include "socket_path.h"

namespace anole {
namespace {

#define EXPECT_REFUSED(text, why) EXPECT_NE((text).find(why), std::string::npos) << (text)

// Why a socket cannot be bound there, or "bound".
std::string refusal(const std::string& at) {
    try {
        const ListeningSocket bound(at);
        return "bound";
    } catch (const std::runtime_error& error) {
        return error.what();
    }
}

// Somebody's socket of any type, bound at a path.
struct Foreign {
    Foreign(int type, const std::string& path) : fd(::socket(AF_UNIX, type, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
        EXPECT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
        if (type != SOCK_DGRAM) {
            EXPECT_EQ(::listen(fd, 1), 0);
        }
    }
    ~Foreign() { ::close(fd); }
    const int fd;
};

TEST(Socket, OneThatSomebodyHoldsStays) {
    const TemporaryFolder folder;
    for (const int type : {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM}) {
        const std::string path = folder.path() + "/" + std::to_string(type);
        {
            const Foreign foreign(type, path);
            EXPECT_REFUSED(refusal(path), "a program that holds no lock is listening there");
            EXPECT_EQ(::access(path.c_str(), F_OK), 0);
        }
        EXPECT_EQ(refusal(path), "bound") << "nobody holds it any more";
    }
}

// One that ends between another's looks holds the lock until its socket is gone.
TEST(Socket, OneThatGoesIsNoProgramWithoutALock) {
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/socket";
    // Who binds sets it for a moment, for the whole process.
    const mode_t mask = ::umask(077);
    std::vector<std::thread> servers;
    for (int n = 0; n < 8; n++) {
        servers.emplace_back([&path] {
            for (int i = 0; i < 3000; i++) {
                const std::string why = refusal(path);
                if (why != "bound") {
                    EXPECT_REFUSED(why, "another server is running there");
                }
            }
        });
    }
    for (std::thread& server : servers) server.join();
    ::umask(mask);
}

TEST(Socket, ALockFileOfSomebodyElseStays) {
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/socket", lock = path + ".lock",
                      precious = folder.path() + "/precious";
    std::ofstream(precious) << "precious";
    ASSERT_EQ(::link(precious.c_str(), lock.c_str()), 0);
    EXPECT_REFUSED(refusal(path), "socket.lock is no lock file");
    ::unlink(lock.c_str());
    ASSERT_EQ(::symlink(precious.c_str(), lock.c_str()), 0);
    EXPECT_REFUSED(refusal(path), "socket.lock is no lock file");
    ::unlink(lock.c_str());
    ASSERT_EQ(::mkfifo(lock.c_str(), 0600), 0);
    EXPECT_REFUSED(refusal(path), "socket.lock is no lock file");
    ::unlink(lock.c_str());
    EXPECT_EQ(refusal(path), "bound");
}

TEST(Socket, IsPrivateAndReplacedOnlyWhenStale) {
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/socket";
    {
        const ListeningSocket bound(path);
        struct stat status {};
        ASSERT_EQ(::stat(path.c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 0777, 0600U);
        EXPECT_EQ(refusal(path),
                  "--socket " + path + ": another server is running there; stop it, or give another path");
        EXPECT_EQ(::access(path.c_str(), F_OK), 0) << "the other's socket stays";
    }
    EXPECT_NE(::access(path.c_str(), F_OK), 0) << "removed at the end";

    // What a killed server leaves: a socket that nobody holds.
    { const Foreign killed(SOCK_SEQPACKET, path); }
    EXPECT_EQ(refusal(path), "bound");

    std::ofstream(path) << "precious";
    EXPECT_NE(refusal(path).find("is not a socket"), std::string::npos);
    EXPECT_EQ(::access(path.c_str(), F_OK), 0);
    EXPECT_NE(refusal("/" + std::string(200, 'x')).find("bytes is needed"), std::string::npos);
    EXPECT_NE(refusal("/nowhere/socket").find("its directory has to exist"), std::string::npos);
}

}  // namespace
}  // namespace anole
