// SHA-256 (FIPS 180-4).
#pragma once

#include <cstddef>
#include <string>

namespace anole {

// The digest in lower-case hexadecimal.
std::string sha256_hex(const void* data, std::size_t length);

}  // namespace anole
