// What is read from a policy file, and what is refused.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <random>

#include "client.h"
#include "policy_file.h"
#include "policy_writer.h"
#include "sha256.h"

namespace anole {
namespace {

using nlohmann::json;

// FIPS 180-4's examples, and lengths around the padding's borders.
TEST(Sha256, KnownAnswers) {
    const auto hash = [](const std::string& text) { return sha256_hex(text.data(), text.size()); };
    EXPECT_EQ(hash(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(hash("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(hash(std::string(1000000, 'a')),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    EXPECT_EQ(hash(std::string(55, 'a')), "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
    EXPECT_EQ(hash(std::string(64, 'a')), "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

// The networks of all schemas, and their tensors, as Rust has recorded them.
TEST(Network, TensorsAreThoseOfTheGoldenFiles) {
    unsigned found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(GOLDEN)) {
        const json golden = json::parse(std::ifstream(entry.path()));
        std::map<std::string, TensorShape> recorded;
        for (const json& tensor : golden["tensors"]) recorded[tensor[0]] = tensor[1].get<TensorShape>();
        EXPECT_EQ(tensor_shapes(parse_network(golden["network"])), recorded) << entry.path();
        found++;
    }
    EXPECT_GT(found, 0U);
}

json small_network() {
    return sequential(2, {{"dense", 3, "tanh"}, {"gru", 2}, {"dense", 1}});
}

PolicyParts small() {
    return random_policy(small_network(), 1);
}

std::string refusal(const std::string& bytes) {
    try {
        parse_policy(bytes);
        return "accepted";
    } catch (const Refusal& refusal) {
        return refusal.what();
    }
}

// The file's header and data, spoilt by `change`.
std::string spoilt(const std::function<void(json&, std::string&)>& change) {
    const std::string bytes = to_bytes(small());
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    json header = json::parse(bytes.substr(8, length));
    std::string data = bytes.substr(8 + length);
    change(header, data);
    return to_bytes(header, data);
}

std::string with_network(const std::function<void(json&)>& change) {
    PolicyParts parts = small();
    change(parts.manifest["network"]);
    return refusal(to_bytes(parts));
}

#define EXPECT_REFUSED(text, why) EXPECT_NE((text).find(why), std::string::npos) << (text)

TEST(PolicyFile, IsRead) {
    const PolicyParts parts = small();
    const PolicyFile file = parse_policy(to_bytes(parts));
    EXPECT_EQ(file.name, "test");
    EXPECT_EQ(file.schema_sha256, parts.manifest["schema_sha256"]);
    EXPECT_EQ(file.network.inputs, 2U);
    EXPECT_EQ(file.network.outputs, 1U);
    EXPECT_EQ(file.network.state, 2U);
    ASSERT_EQ(file.tensors.size(), 8U);
    for (const auto& [name, tensor] : parts.tensors) {
        EXPECT_EQ(file.tensors.at(name).shape, tensor.shape) << name;
        EXPECT_EQ(file.tensors.at(name).values, tensor.values) << name;
    }
}

// Every shorter file is refused, and one with a byte more.
TEST(PolicyFile, WrongLengthsAreRefused) {
    const std::string bytes = to_bytes(small());
    for (std::size_t length = 0; length < bytes.size(); length++) {
        EXPECT_NE(refusal(bytes.substr(0, length)), "accepted") << length;
    }
    EXPECT_REFUSED(refusal(bytes.substr(0, 7)), "truncated");
    EXPECT_REFUSED(refusal(bytes.substr(0, 100)), "truncated: a header of");
    EXPECT_REFUSED(refusal(bytes.substr(0, bytes.size() - 1)), "it is truncated");
    EXPECT_REFUSED(refusal(bytes + "x"), "it is too long");
}

// Any single changed byte is noticed, or changes nothing that is read: padding of the JSON apart there is
// none, so that it is noticed.
TEST(PolicyFile, ChangedBytesAreRefusedOrHarmless) {
    const std::string bytes = to_bytes(small());
    std::mt19937 random(1);
    for (int i = 0; i < 3000; i++) {
        std::string changed = bytes;
        const std::size_t at = random() % bytes.size();
        changed[at] = static_cast<char>(changed[at] ^ (1 << random() % 8));
        std::uint64_t header_bytes = 0;
        std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
        // In the header a change may hit what nobody checks, such as the training's seed.
        if (refusal(changed) == "accepted") {
            EXPECT_LT(at, 8 + header_bytes);
        }
    }
}

TEST(PolicyFile, RandomBytesAreRefused) {
    std::mt19937 random(2);
    for (int i = 0; i < 3000; i++) {
        std::string bytes(random() % 200, '\0');
        for (char& byte : bytes) byte = static_cast<char>(random());
        if (bytes.size() >= 8 && i % 2 == 0) {
            const std::uint64_t header = random() % bytes.size();
            std::memcpy(bytes.data(), &header, sizeof(header));
        }
        EXPECT_NE(refusal(bytes), "accepted");
    }
}

TEST(PolicyFile, WeightsThatAreNoNumbersAreRefused) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
        PolicyParts parts = small();
        parts.tensors["layers.1.weight_hh"].values[5] = bad;
        EXPECT_REFUSED(refusal(to_bytes(parts)), std::string("tensor layers.1.weight_hh: value 5 is ") +
                                                     (std::isnan(bad) ? "NaN" : "infinite"));
    }
}

TEST(PolicyFile, TensorsMustBeThoseOfTheNetwork) {
    PolicyParts missing = small();
    missing.tensors.erase("layers.2.bias");
    EXPECT_REFUSED(refusal(to_bytes(missing)), "tensor layers.2.bias [1] is missing");

    PolicyParts extra = small();
    extra.tensors["layers.3.bias"] = Tensor{{1}, {0}};
    EXPECT_REFUSED(refusal(to_bytes(extra)), "tensor layers.3.bias has no place in the network");

    PolicyParts misshapen = small();
    misshapen.tensors["layers.0.weight"].shape = {2, 3};
    EXPECT_REFUSED(refusal(to_bytes(misshapen)),
                   "tensor layers.0.weight has shape [2,3], and the network needs [3,2]");
}

TEST(PolicyFile, HeadersThatLieAreRefused) {
    const auto tensor = [](const char* key, const json& value) {
        return refusal(spoilt([&](json& header, std::string&) { header["layers.0.bias"][key] = value; }));
    };
    EXPECT_REFUSED(tensor("dtype", "F64"), "tensor layers.0.bias: dtype is \"F64\"");
    EXPECT_REFUSED(tensor("shape", {1 << 20, 1 << 20}), "is more than 64 MiB");
    EXPECT_REFUSED(tensor("shape", {std::uint64_t{1} << 63, 4}), "is more than 64 MiB");
    EXPECT_REFUSED(tensor("shape", {-1}), "whole numbers");
    EXPECT_REFUSED(tensor("shape", {1, 1, 1, 1, 1, 1, 1, 1, 3}), "at most 8");
    EXPECT_REFUSED(tensor("data_offsets", {12, 0}), "do not span");
    EXPECT_REFUSED(tensor("data_offsets", {4, 16}), "gaps or overlap");
    EXPECT_REFUSED(tensor("data_offsets", {std::uint64_t{1} << 62, (std::uint64_t{1} << 62) + 12}),
                   "gaps or overlap");
    EXPECT_REFUSED(tensor("data_offsets", "0"), "two whole numbers");
    EXPECT_REFUSED(refusal(spoilt([](json& header, std::string&) { header["layers.0.bias"] = 1; })),
                   "dtype, shape or data_offsets is missing");
    EXPECT_REFUSED(refusal(spoilt([](json& header, std::string&) { header.erase("__metadata__"); })),
                   "no manifest");
    EXPECT_REFUSED(refusal(spoilt([](json& header, std::string&) { header["__metadata__"]["anole"] = "["; })),
                   "the manifest is not a JSON object");
    EXPECT_REFUSED(refusal(to_bytes(json::array(), "")), "the header is not a JSON object");
    std::string huge(16, '\xff');
    EXPECT_REFUSED(refusal(huge), "more than 1 MiB");
    EXPECT_REFUSED(refusal(to_bytes(json::object(), std::string(MAX_WEIGHTS_BYTES + 4, '\0'))), "64 MiB");
}

// What is nested is walked by recursion, and a file may be made to exhaust the stack.
TEST(PolicyFile, DeepNestingIsRefused) {
    constexpr std::size_t DEPTH = 500000;
    const auto file = [](const std::string& header) {
        const std::uint64_t length = header.size();
        return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header;
    };
    const std::string nested = std::string(DEPTH, '[') + std::string(DEPTH, ']');
    const std::string tensor = "\"shape\": [1], \"data_offsets\": [0, 4]}}";
    EXPECT_REFUSED(refusal(file("{\"t\": {\"dtype\": " + nested + ", " + tensor)),
                   "nested more than 16 levels");
    EXPECT_REFUSED(refusal(file(std::string(DEPTH, '['))), "nested more than 16 levels");
    EXPECT_REFUSED(refusal(spoilt([&](json& header, std::string&) {
                       header["__metadata__"]["anole"] = "{\"format\": " + nested + "}";
                   })),
                   "the manifest is nested more than 16 levels");
}

TEST(PolicyFile, HashesAndFormatAreChecked) {
    PolicyParts schema = small();
    schema.manifest["schema"] = "name = \"other\"\n";
    EXPECT_REFUSED(refusal(to_bytes(schema)), "the sha256 of the schema is ");
    EXPECT_REFUSED(refusal(spoilt([](json&, std::string& data) { data[0] ^= 1; })),
                   "the sha256 of the tensors is ");
    PolicyParts format = small();
    format.manifest["format"] = 2;
    EXPECT_REFUSED(refusal(to_bytes(format)), "format is 2");
    for (const char* key : {"format", "name", "schema", "schema_sha256", "network"}) {
        PolicyParts parts = small();
        parts.manifest.erase(key);
        EXPECT_REFUSED(refusal(to_bytes(parts)), key);
    }
}

TEST(Network, MustAgreeWithItself) {
    EXPECT_EQ(with_network([](json&) {}), "accepted");
    EXPECT_REFUSED(with_network([](json& n) { n["kind"] = "transformer"; }), "network.kind is");
    EXPECT_REFUSED(with_network([](json& n) { n["inputs"] = 3; }), "network.layers[0].inputs is 2");
    EXPECT_REFUSED(with_network([](json& n) { n["inputs"] = 0; }), "network.inputs is 0");
    EXPECT_REFUSED(with_network([](json& n) { n["inputs"] = 1e30; }), "network.inputs is 1e+30");
    EXPECT_REFUSED(with_network([](json& n) { n["outputs"] = 2; }), "network.outputs is 2");
    EXPECT_REFUSED(with_network([](json& n) { n["state"] = 4; }), "network.state is 4");
    EXPECT_REFUSED(with_network([](json& n) { n["layers"][1]["units"] = 70000; }),
                   "layers[1].units is 70000");
    EXPECT_REFUSED(with_network([](json& n) { n["layers"][0]["activation"] = "gelu"; }),
                   "activation is \"gelu\"");
    EXPECT_REFUSED(with_network([](json& n) { n["layers"][0] = 1; }), "layers[0] is not an object");
    EXPECT_REFUSED(with_network([](json& n) { n["layers"] = json::array(); }), "1 to 64 layers");
    EXPECT_REFUSED(with_network([](json& n) { n["head"] = "mixture"; }), "three units");
    EXPECT_REFUSED(with_network([](json& n) { n.erase("head"); }), "lacks \"head\"");
    EXPECT_REFUSED(with_network([](json& n) { n = 1; }), "network is not an object");
    const json convolution = {{"kind", "conv1d"},   {"inputs", 2},     {"units", 8000},
                              {"channels", {2, 2}}, {"length", 1},     {"kernel", 4000},
                              {"stride", 1},        {"padding", 3999}, {"time_major", false}};
    EXPECT_REFUSED(with_network([&](json& n) { n["layers"][0] = convolution; }),
                   "layers[0] takes more than 16777216 products for one answer");
    PolicyParts spine = random_policy(hierarchical(3, 4, 5, 2), 1);
    spine.manifest["network"]["state"] = 19;
    EXPECT_REFUSED(refusal(to_bytes(spine)), "network.state is 19, but the layers make it 20");
}

// A refusal begins with the path; what is no file is refused without waiting.
TEST(PolicyFile, RefusalsNameTheFile) {
    const TemporaryFolder folder;
    const auto read = [](const std::string& path) {
        try {
            read_policy(path);
            return std::string("accepted");
        } catch (const Refusal& refusal) {
            return std::string(refusal.what());
        }
    };
    const std::string path = folder.path() + "/bad.safetensors";
    write_file(path, "short");
    EXPECT_EQ(read(path), path + ": truncated: 5 bytes");
    EXPECT_EQ(read(folder.path()), folder.path() + ": is not a file");
    ASSERT_EQ(::mkfifo((folder.path() + "/pipe").c_str(), 0600), 0);
    EXPECT_EQ(read(folder.path() + "/pipe"), folder.path() + "/pipe: is not a file");
    // What the file says is quoted in one short line.
    PolicyParts parts = small();
    parts.manifest["schema_sha256"] = "a\nb\x1b" + std::string(5000, 'x');
    write_file(path, to_bytes(parts));
    const std::string text = read(path);
    EXPECT_LT(text.size(), 600U);
    EXPECT_EQ(text.find('\n'), std::string::npos);
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    write_file(path, to_bytes(small()));
    EXPECT_EQ(read(path), "accepted");
}

}  // namespace
}  // namespace anole
