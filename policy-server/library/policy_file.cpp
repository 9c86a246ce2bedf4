#include "policy_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "sha256.h"

namespace anole {
namespace {

using nlohmann::json;

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "safetensors are read as they lie in memory");

// One entry of the header: a tensor's shape and the range of its bytes in the data section.
struct Entry {
    TensorShape shape;
    std::uint64_t begin;
    std::uint64_t end;
};

// A refusal quotes the file, which may be made to harm: no longer than a line, no control characters.
constexpr std::size_t MAX_REFUSAL_BYTES = 400;

std::string text_of(const TensorShape& shape) {
    return json(shape).dump();
}

// A header has four levels: object, tensor, shape, number. What is printed or compared is walked by
// recursion, so a deeper one is refused while it is read.
constexpr int MAX_DEPTH = 16;

json parse_json(std::string_view text, const char* what) {
    const auto shallow = [what](int depth, json::parse_event_t, const json&) {
        if (depth <= MAX_DEPTH) return true;
        throw Refusal(std::string(what) + " is nested more than " + std::to_string(MAX_DEPTH) +
                      " levels deep");
    };
    json parsed = json::parse(text.begin(), text.end(), shallow, false);
    if (!parsed.is_object()) throw Refusal(std::string(what) + " is not a JSON object");
    return parsed;
}

const std::string& text_member(const json& object, const char* key) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_string()) {
        throw Refusal(std::string("the manifest lacks the text \"") + key + "\"");
    }
    return found->get_ref<const std::string&>();
}

// Bytes that a tensor of this shape has; refuses what is more than all weights may have.
std::uint64_t bytes_of(const std::string& name, const TensorShape& shape) {
    std::uint64_t bytes = sizeof(float);
    for (const std::uint64_t size : shape) {
        // Both factors are at most 2^26 here: no product overflows.
        if (size > MAX_WEIGHTS_BYTES || (bytes *= size) > MAX_WEIGHTS_BYTES) {
            throw Refusal("tensor " + name + ": shape " + text_of(shape) + " is more than " +
                          std::to_string(MAX_WEIGHTS_BYTES >> 20) + " MiB");
        }
    }
    return bytes;
}

Entry parse_entry(const std::string& name, const json& value) {
    const std::string what = "tensor " + name + ": ";
    if (!value.is_object() || !value.contains("dtype") || !value.contains("shape") ||
        !value.contains("data_offsets")) {
        throw Refusal(what + "dtype, shape or data_offsets is missing");
    }
    const json& dtype = value["dtype"];
    const json& shape = value["shape"];
    const json& offsets = value["data_offsets"];
    if (dtype != "F32") throw Refusal(what + "dtype is " + dtype.dump() + ", and only \"F32\" is allowed");
    const auto whole = [](const json& number) { return number.is_number_unsigned(); };
    if (!shape.is_array() || shape.size() > 8 || !std::all_of(shape.begin(), shape.end(), whole)) {
        throw Refusal(what + "its shape is not a list of at most 8 whole numbers");
    }
    if (!offsets.is_array() || offsets.size() != 2 || !whole(offsets[0]) || !whole(offsets[1])) {
        throw Refusal(what + "its data_offsets are not two whole numbers");
    }
    Entry entry{shape.get<TensorShape>(), offsets[0].get<std::uint64_t>(), offsets[1].get<std::uint64_t>()};
    const std::uint64_t bytes = bytes_of(name, entry.shape);
    if (entry.end < entry.begin || entry.end - entry.begin != bytes) {
        throw Refusal(what + "its data_offsets " + offsets.dump() + " do not span the " +
                      std::to_string(bytes) + " bytes of shape " + text_of(entry.shape));
    }
    return entry;
}

// The entries must cover the data section without gap, overlap or rest.
void check_cover(const std::map<std::string, Entry>& entries, std::uint64_t data_bytes) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
    for (const auto& [name, entry] : entries) ranges.emplace_back(entry.begin, entry.end);
    std::sort(ranges.begin(), ranges.end());
    std::uint64_t covered = 0;
    for (const auto& [begin, end] : ranges) {
        if (begin != covered) throw Refusal("the tensors' data_offsets leave gaps or overlap");
        covered = end;
    }
    if (covered != data_bytes) {
        throw Refusal("the tensors have " + std::to_string(covered) + " bytes, but the file has " +
                      std::to_string(data_bytes) + " after its header: it is " +
                      (data_bytes < covered ? "truncated" : "too long"));
    }
}

// The tensors must be those of the network, no more, no less, in its shapes.
void check_tensors(const std::map<std::string, Entry>& entries, const NetworkShape& network) {
    const auto expected = tensor_shapes(network);
    for (const auto& [name, shape] : expected) {
        const auto found = entries.find(name);
        if (found == entries.end()) throw Refusal("tensor " + name + " " + text_of(shape) + " is missing");
        if (found->second.shape != shape) {
            throw Refusal("tensor " + name + " has shape " + text_of(found->second.shape) +
                          ", and the network needs " + text_of(shape));
        }
    }
    for (const auto& each : entries) {
        if (expected.count(each.first) == 0) {
            throw Refusal("tensor " + each.first + " has no place in the network");
        }
    }
}

void check_hash(const char* what, const std::string& declared, std::string_view bytes) {
    const std::string actual = sha256_hex(bytes.data(), bytes.size());
    if (declared != actual) {
        throw Refusal(std::string("the sha256 of ") + what + " is " + actual + ", but the manifest says " +
                      declared + ": the file was changed");
    }
}

Tensor parse_tensor(const std::string& name, const Entry& entry, std::string_view data) {
    Tensor tensor{entry.shape, std::vector<float>((entry.end - entry.begin) / sizeof(float))};
    // Not aligned in the file, which is why it is copied.
    std::memcpy(tensor.values.data(), data.data() + entry.begin, entry.end - entry.begin);
    for (std::size_t i = 0; i < tensor.values.size(); i++) {
        if (!std::isfinite(tensor.values[i])) {
            throw Refusal("tensor " + name + ": value " + std::to_string(i) + " is " +
                          (std::isnan(tensor.values[i]) ? "NaN" : "infinite"));
        }
    }
    return tensor;
}

json parse_manifest(const json& header) {
    const auto metadata = header.find("__metadata__");
    if (metadata == header.end() || !metadata->is_object() || !metadata->contains("anole") ||
        !metadata->at("anole").is_string()) {
        throw Refusal("no manifest: \"__metadata__\" lacks the text \"anole\"");
    }
    json manifest = parse_json(metadata->at("anole").get_ref<const std::string&>(), "the manifest");
    const auto format = manifest.find("format");
    if (format == manifest.end() || *format != 1) {
        throw Refusal("the manifest's format is " + (format == manifest.end() ? "missing" : format->dump()) +
                      ", and this version reads format 1");
    }
    return manifest;
}

}  // namespace

PolicyFile parse_policy(std::string_view bytes) {
    std::uint64_t header_bytes = 0;
    if (bytes.size() < sizeof(header_bytes)) {
        throw Refusal("truncated: " + std::to_string(bytes.size()) + " bytes");
    }
    std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
    bytes.remove_prefix(sizeof(header_bytes));
    if (header_bytes > MAX_HEADER_BYTES) {
        throw Refusal("its header of " + std::to_string(header_bytes) +
                      " bytes is more than 1 MiB; it is not a policy file");
    }
    if (header_bytes > bytes.size()) {
        throw Refusal("truncated: a header of " + std::to_string(header_bytes) + " bytes, " +
                      std::to_string(bytes.size()) + " in the file");
    }
    const std::string_view data = bytes.substr(header_bytes);
    if (data.size() > MAX_WEIGHTS_BYTES) throw Refusal("its tensors have more than 64 MiB");

    const json header = parse_json(bytes.substr(0, header_bytes), "the header");
    std::map<std::string, Entry> entries;
    for (const auto& [name, value] : header.items()) {
        if (name != "__metadata__") entries.emplace(name, parse_entry(name, value));
    }
    check_cover(entries, data.size());

    const json manifest = parse_manifest(header);
    PolicyFile file;
    file.name = text_member(manifest, "name");
    file.schema_sha256 = text_member(manifest, "schema_sha256");
    check_hash("the schema", file.schema_sha256, text_member(manifest, "schema"));
    check_hash("the tensors", text_member(manifest, "tensors_sha256"), data);
    if (!manifest.contains("network")) throw Refusal("the manifest lacks \"network\"");
    file.network = parse_network(manifest["network"]);
    check_tensors(entries, file.network);
    for (const auto& [name, entry] : entries) file.tensors.emplace(name, parse_tensor(name, entry, data));
    return file;
}

PolicyFile read_policy(const std::string& path) {
    constexpr std::uint64_t MAX_FILE_BYTES = sizeof(std::uint64_t) + MAX_HEADER_BYTES + MAX_WEIGHTS_BYTES;
    const auto refuse = [&path](std::string why) {
        if (why.size() > MAX_REFUSAL_BYTES) why = why.substr(0, MAX_REFUSAL_BYTES) + "...";
        std::replace_if(
            why.begin(), why.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
        return Refusal(path + ": " + why);
    };

    // Not blocking: opening a FIFO would otherwise wait for a writer.
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) throw refuse(std::string("cannot be opened: ") + std::strerror(errno));
    struct Close {
        int file;
        ~Close() { ::close(file); }
    } const closer{file};

    struct stat status {};
    if (::fstat(file, &status) != 0) throw refuse(std::string("cannot be read: ") + std::strerror(errno));
    if (!S_ISREG(status.st_mode)) throw refuse("is not a file");
    const auto size = static_cast<std::uint64_t>(status.st_size);
    if (size > MAX_FILE_BYTES) {
        throw refuse(std::to_string(size) +
                     " bytes are more than a policy file may have (64 MiB of tensors)");
    }
    std::string bytes(size, '\0');
    std::size_t filled = 0;
    while (filled < bytes.size()) {
        const ssize_t got = ::read(file, bytes.data() + filled, bytes.size() - filled);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw refuse(std::string("cannot be read: ") + std::strerror(errno));
        if (got == 0) throw refuse("became shorter while it was read");
        filled += static_cast<std::size_t>(got);
    }
    try {
        return parse_policy(bytes);
    } catch (const Refusal& refusal) {
        throw refuse(refusal.what());
    }
}

}  // namespace anole
