// The clock of deadlines and waits.
#pragma once

#include <algorithm>
#include <chrono>

namespace anole {

using Clock = std::chrono::steady_clock;

// How long poll() and its like may wait for what is due at `moment`, ms.
inline int wait_ms(Clock::time_point moment) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(moment - Clock::now());
    return static_cast<int>(std::max<std::chrono::milliseconds::rep>(left.count(), 0));
}

}  // namespace anole
