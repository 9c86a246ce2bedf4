// What was given cannot be used.
#pragma once

#include <stdexcept>

namespace anole {

// A flag's value, or what it names: exit code 2. The message names the flag.
struct UsageError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

}  // namespace anole
