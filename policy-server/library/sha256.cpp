#include "sha256.h"

#include <array>
#include <cstdint>
#include <cstring>

namespace anole {
namespace {

// FIPS 180-4, 4.2.2: the first 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<std::uint32_t, 64> K = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

constexpr std::size_t BLOCK = 64;

std::uint32_t rotr(std::uint32_t x, unsigned n) {
    return (x >> n) | (x << (32 - n));
}

// 6.2.2: one block of 64 bytes.
void compress(std::array<std::uint32_t, 8>& hash, const unsigned char* block) {
    std::array<std::uint32_t, 64> w{};
    for (unsigned t = 0; t < 16; t++) {
        const unsigned char* p = block + 4 * t;
        w[t] = std::uint32_t{p[0]} << 24 | std::uint32_t{p[1]} << 16 | std::uint32_t{p[2]} << 8 | p[3];
    }
    for (unsigned t = 16; t < 64; t++) {
        const std::uint32_t s0 = rotr(w[t - 15], 7) ^ rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
        const std::uint32_t s1 = rotr(w[t - 2], 17) ^ rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
        w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
    auto [a, b, c, d, e, f, g, h] = hash;
    for (unsigned t = 0; t < 64; t++) {
        const std::uint32_t s1 = rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25);
        const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + K[t] + w[t];
        const std::uint32_t s0 = rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22);
        const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const std::array<std::uint32_t, 8> added = {a, b, c, d, e, f, g, h};
    for (unsigned i = 0; i < 8; i++) hash[i] += added[i];
}

}  // namespace

std::string sha256_hex(const void* data, std::size_t length) {
    // 5.3.3: from the square roots of the first 8 primes.
    std::array<std::uint32_t, 8> hash = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const auto* bytes = static_cast<const unsigned char*>(data);
    const std::size_t whole = length / BLOCK * BLOCK;
    for (std::size_t at = 0; at < whole; at += BLOCK) compress(hash, bytes + at);

    // 5.1.1: what is left, a one bit, zeros, the length in bits.
    std::array<unsigned char, 2 * BLOCK> tail{};
    const std::size_t left = length - whole;
    if (left > 0) std::memcpy(tail.data(), bytes + whole, left);
    tail[left] = 0x80;
    const std::size_t padded = left < BLOCK - 8 ? BLOCK : 2 * BLOCK;
    for (unsigned i = 0; i < 8; i++) {
        tail[padded - 1 - i] = static_cast<unsigned char>(std::uint64_t{length} * 8 >> (8 * i));
    }
    for (std::size_t at = 0; at < padded; at += BLOCK) compress(hash, tail.data() + at);

    std::string hex;
    for (const std::uint32_t word : hash) {
        for (int shift = 28; shift >= 0; shift -= 4) hex += "0123456789abcdef"[word >> shift & 0xf];
    }
    return hex;
}

}  // namespace anole
