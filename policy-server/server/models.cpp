#include "models.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <vector>

#include "clock.h"
#include "protocol.h"
#include "usage_error.h"

namespace anole {
namespace {

constexpr const char* SUFFIX = ".safetensors";
// How often links are followed anew: the folder has no event for what happens behind one.
constexpr std::chrono::seconds FOLLOW_LINKS{1};

// Device and inode of what a path leads to; zeros where it leads nowhere.
std::pair<std::uint64_t, std::uint64_t> identity_of(const std::string& path) {
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) return {};
    return {found.st_dev, found.st_ino};
}

// The model's name of a file name; empty if it is none.
std::string model_of(const std::string& file) {
    const std::size_t suffix = std::strlen(SUFFIX);
    if (file.size() <= suffix || file.compare(file.size() - suffix, suffix, SUFFIX) != 0) return "";
    const std::string name = file.substr(0, file.size() - suffix);
    return protocol::is_model_name(name) ? name : "";
}

// Computes one row of zeros: the first request is then as fast as the others, and a policy that cannot
// answer is found here.
void try_out(const Policy& policy, const std::string& path) {
    const Shape& shape = policy.shape();
    if (!protocol::fits(shape)) throw std::runtime_error(path + ": its input and state do not fit a packet");
    std::vector<float> inputs(shape.inputs), state(shape.state), outputs(shape.outputs);
    policy.step(1, inputs.data(), state.data(), outputs.data());
    const auto finite = [](float value) { return std::isfinite(value); };
    if (!std::all_of(outputs.begin(), outputs.end(), finite) ||
        !std::all_of(state.begin(), state.end(), finite)) {
        throw std::runtime_error(path + ": its answer to zeros is not finite");
    }
}

}  // namespace

Models::Models(std::string directory, Loader loader, Log& log)
    : directory_(std::move(directory)), loader_(std::move(loader)), log_(log) {
    const auto fail = [this](const char* what) {
        const std::string reason = std::strerror(errno);
        if (inotify_ >= 0) ::close(inotify_);
        return UsageError("--models " + directory_ + ": " + what + ": " + reason);
    };
    inotify_ = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (inotify_ < 0) throw fail("changes cannot be followed");
    // Before the scan: what changes meanwhile is then loaded twice, and not missed.
    if (!watch_directory()) throw fail("the directory cannot be followed");
    stop_ = ::eventfd(0, EFD_CLOEXEC);
    if (stop_ < 0) throw fail("changes cannot be followed");
    scan();
    watcher_ = std::thread([this] { watch(); });
}

Models::~Models() {
    const std::uint64_t one = 1;
    if (::write(stop_, &one, sizeof(one)) == sizeof(one)) watcher_.join();
    ::close(inotify_);
    ::close(stop_);
}

std::shared_ptr<const Slot> Models::find(const std::string& name) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = slots_.find(name);
    return found == slots_.end() ? nullptr : found->second;
}

Models::Stamp Models::stamp_of(const std::string& path) {
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) return {};
    return {static_cast<std::int64_t>(found.st_dev),
            static_cast<std::int64_t>(found.st_ino),
            found.st_size,
            found.st_mtim.tv_sec,
            found.st_mtim.tv_nsec,
            found.st_ctim.tv_sec,
            found.st_ctim.tv_nsec};
}

bool Models::watch_directory() {
    const Identity found = identity_of(directory_);
    const int added = ::inotify_add_watch(
        inotify_, directory_.c_str(),
        IN_CLOSE_WRITE | IN_ATTRIB | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ONLYDIR);
    if (added < 0) return false;
    if (watch_ >= 0 && watch_ != added) ::inotify_rm_watch(inotify_, watch_);
    watch_ = added;
    watched_ = found;
    return true;
}

void Models::follow_links() {
    const Identity found = identity_of(directory_);
    if (found != watched_ && found != Identity{}) {
        if (watch_directory()) scan();
        return;
    }
    std::error_code error;
    for (auto entry = std::filesystem::directory_iterator(directory_, error);
         !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
        const std::string name = model_of(entry->path().filename().string());
        std::error_code gone;
        if (name.empty() || !entry->is_symlink(gone)) continue;
        const Stamp target = stamp_of(entry->path().string());
        if (target == Stamp{}) {
            const auto slot = find(name);
            if (slot != nullptr && slot->policy() != nullptr) remove(name);
        } else if (target != loaded_[name]) {
            reload(name);
        }
    }
}

void Models::scan() {
    std::set<std::string> names;
    std::error_code error;
    for (auto entry = std::filesystem::directory_iterator(directory_, error);
         !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
        const std::string name = model_of(entry->path().filename().string());
        if (!name.empty()) names.insert(name);
    }
    if (error) log_.line(directory_ + ": cannot be listed: " + error.message());

    std::vector<std::string> gone;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (const auto& each : slots_) {
            if (names.count(each.first) == 0) gone.push_back(each.first);
        }
    }
    for (const std::string& name : gone) remove(name);
    for (const std::string& name : names) reload(name);
}

void Models::reload(const std::string& name) {
    const std::string path = directory_ + "/" + name + SUFFIX;
    std::shared_ptr<const Policy> policy;
    std::string refusal;
    loaded_[name] = stamp_of(path);
    try {
        policy = loader_(path);
        try_out(*policy, path);
    } catch (const std::exception& exception) {
        policy = nullptr;
        refusal = exception.what();
    }
    std::shared_ptr<Slot> slot;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        auto& place = slots_[name];
        if (place == nullptr) place = std::make_shared<Slot>();
        slot = place;
    }
    bool replaced = false;
    {
        const std::lock_guard<std::mutex> lock(slot->mutex_);
        replaced = slot->policy_ != nullptr;
        slot->refusal_ = refusal;
        if (policy != nullptr) slot->policy_.swap(policy);  // the old one is freed without the lock
    }
    if (!refusal.empty()) {
        log_.line("refused: " + refusal + (replaced ? "; the policy loaded before stays" : ""));
    } else {
        log_.line((replaced ? "loaded again: " : "loaded: ") + path);
    }
}

void Models::remove(const std::string& name) {
    std::shared_ptr<const Policy> old;
    loaded_.erase(name);
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        const auto found = slots_.find(name);
        if (found == slots_.end()) return;
        const std::lock_guard<std::mutex> slot_lock(found->second->mutex_);
        old.swap(found->second->policy_);
        found->second->refusal_.clear();
    }
    log_.line("removed: " + directory_ + "/" + name + SUFFIX);
}

void Models::watch() {
    pollfd waiting[] = {{inotify_, POLLIN, 0}, {stop_, POLLIN, 0}};
    auto follow_at = Clock::now() + FOLLOW_LINKS;
    for (;;) {
        const int ready = ::poll(waiting, 2, wait_ms(follow_at));
        if (ready < 0 && errno != EINTR) return;
        if (ready > 0 && waiting[1].revents != 0) return;
        try {
            if (ready > 0 && waiting[0].revents != 0) read_events();
            if (Clock::now() >= follow_at) {
                follow_at = Clock::now() + FOLLOW_LINKS;
                follow_links();
            }
        } catch (const std::exception& exception) {
            log_.line(directory_ + ": changes were missed: " + exception.what());
        }
    }
}

void Models::read_events() {
    // Many changes of one file are one.
    std::set<std::string> changed, gone;
    bool lost = false;
    alignas(inotify_event) char buffer[16384];
    for (;;) {
        const ssize_t length = ::read(inotify_, buffer, sizeof(buffer));
        if (length <= 0) break;
        for (const char* at = buffer; at < buffer + length;) {
            const auto* event = reinterpret_cast<const inotify_event*>(at);
            at += sizeof(inotify_event) + event->len;
            if ((event->mask & IN_Q_OVERFLOW) != 0) lost = true;
            // Of a watch that was taken off another folder behind the link, nothing is to be said.
            if (event->wd != watch_ && event->wd >= 0) continue;
            if ((event->mask & IN_IGNORED) != 0) {
                watched_ = {};
                log_.line(directory_ + ": the directory is gone; what was loaded stays");
            }
            const std::string name = event->len > 0 ? model_of(event->name) : "";
            if (name.empty()) continue;
            const bool there = (event->mask & (IN_CLOSE_WRITE | IN_ATTRIB | IN_MOVED_TO)) != 0;
            (there ? changed : gone).insert(name);
            (there ? gone : changed).erase(name);
        }
    }
    if (lost) {
        scan();
        return;
    }
    for (const std::string& name : gone) remove(name);
    for (const std::string& name : changed) reload(name);
}

}  // namespace anole
