// The policy files of a directory, loaded, and loaded again when they change.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "log.h"
#include "policy.h"

namespace anole {

// A name and what is served under it. A handle keeps the slot, so it sees each new policy.
class Slot {
  public:
    // Nothing where no file of this name was accepted, or where it was removed.
    std::shared_ptr<const Policy> policy() const {
        const std::lock_guard<std::mutex> lock(mutex_);
        return policy_;
    }

    // Why the last file was refused; empty if it was not.
    std::string refusal() const {
        const std::lock_guard<std::mutex> lock(mutex_);
        return refusal_;
    }

  private:
    friend class Models;
    mutable std::mutex mutex_;
    std::shared_ptr<const Policy> policy_;
    std::string refusal_;
};

class Models {
  public:
    // Loads every DIRECTORY/NAME.safetensors and follows changes on a thread of its own: of files at once,
    // behind links within a second or two. A refused file is logged and the policy before it stays. Throws
    // std::runtime_error where the directory cannot be read.
    Models(std::string directory, Loader loader, Log& log);
    Models(const Models&) = delete;
    Models& operator=(const Models&) = delete;
    ~Models();

    // The slot of a name that has or had a file; nothing otherwise.
    std::shared_ptr<const Slot> find(const std::string& name) const;

  private:
    // Device and inode.
    using Identity = std::pair<std::uint64_t, std::uint64_t>;
    // What changes when a file is written again or another is put in its place: device, inode, length, and
    // the times of the last changes of content and status, in s and ns. Zeros where there is none.
    using Stamp = std::array<std::int64_t, 7>;

    static Stamp stamp_of(const std::string& path);
    bool watch_directory();
    void follow_links();
    void scan();
    void reload(const std::string& name);
    void remove(const std::string& name);
    void watch();
    void read_events();

    const std::string directory_;
    const Loader loader_;
    Log& log_;
    int inotify_ = -1;
    int stop_ = -1;
    // Of the watching thread alone: the folder that is watched, and what each name was loaded from.
    int watch_ = -1;
    Identity watched_;
    std::map<std::string, Stamp> loaded_;
    mutable std::mutex mutex_;
    std::map<std::string, std::shared_ptr<Slot>> slots_;
    std::thread watcher_;
};

}  // namespace anole
