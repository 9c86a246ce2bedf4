// Lines to stderr.
#pragma once

#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>

namespace anole {

// At most LINES_PER_SECOND, so that what a client does cannot fill a disk; what was left out is counted.
class Log {
  public:
    void line(const std::string& text) {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto now = std::chrono::steady_clock::now();
        if (now - second_ >= std::chrono::seconds(1)) {
            if (written_ > LINES_PER_SECOND) {
                std::fprintf(stderr, "anole-policy-server: %u lines left out\n", written_ - LINES_PER_SECOND);
            }
            second_ = now;
            written_ = 0;
        }
        if (written_++ < LINES_PER_SECOND) std::fprintf(stderr, "anole-policy-server: %s\n", text.c_str());
    }

  private:
    static constexpr unsigned LINES_PER_SECOND = 50;
    std::mutex mutex_;
    std::chrono::steady_clock::time_point second_{};
    unsigned written_ = 0;
};

}  // namespace anole
