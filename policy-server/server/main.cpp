// anole-policy-server: serves trained policies to agents; see ../README.md.
#include <getopt.h>
#include <signal.h>

#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <stdexcept>

#include "library.h"
#include "server.h"
#include "usage_error.h"

namespace {

using anole::UsageError;

constexpr const char* USAGE =
    "usage: anole-policy-server --socket PATH --models DIR [OPTIONS]\n"
    "\n"
    "Serves DIR/NAME.safetensors to agents, batched across flows; files that change are loaded again.\n"
    "\n"
    "  --socket PATH          Unix socket to serve at\n"
    "  --models DIR           folder of the policy files\n"
    "  --window-us N          wait this long for more requests, 0 to 500 [500]\n"
    "  --max-batch N          compute as soon as this many wait, 1 to 4096 [256]\n"
    "  --queue N              requests that may wait, 1 to 65536; of one connection half [4096]\n"
    "  --max-connections N    1 to 10000 [256]\n"
    "  --threads N            threads per operation, 1 to 64 [1]\n"
    "  --library PATH         libanole_policy_torch.so [beside this program, or on the search path]\n"
    "  --help, --version\n";

unsigned long number(const std::string& flag, const char* text, unsigned long low, unsigned long high) {
    char* end = nullptr;
    errno = 0;
    const unsigned long value = std::strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value < low || value > high) {
        throw UsageError("--" + flag + " " + text + ": a whole number from " + std::to_string(low) + " to " +
                         std::to_string(high) + " is needed");
    }
    return value;
}

struct CommandLine {
    anole::Options options;
    std::string torch_library;
    std::uint32_t threads = 1;
    bool done = false;
};

CommandLine parse(int argc, char** argv) {
    const option flags[] = {{"socket", required_argument, nullptr, 0},
                            {"models", required_argument, nullptr, 0},
                            {"window-us", required_argument, nullptr, 0},
                            {"max-batch", required_argument, nullptr, 0},
                            {"queue", required_argument, nullptr, 0},
                            {"max-connections", required_argument, nullptr, 0},
                            {"threads", required_argument, nullptr, 0},
                            {"library", required_argument, nullptr, 0},
                            {"help", no_argument, nullptr, 0},
                            {"version", no_argument, nullptr, 0},
                            {nullptr, 0, nullptr, 0}};
    // By which getopt_long begins what it says.
    static char name[] = "anole-policy-server";
    argv[0] = name;
    CommandLine parsed;
    auto& limits = parsed.options.limits;
    int index = 0;
    for (int got; (got = ::getopt_long(argc, argv, "", flags, &index)) != -1;) {
        if (got != 0) throw UsageError("");  // getopt_long has said why, after the program's name
        const std::string flag = flags[index].name;
        if (flag == "socket") parsed.options.socket = optarg;
        if (flag == "models") parsed.options.models = optarg;
        if (flag == "window-us") limits.window = std::chrono::microseconds(number(flag, optarg, 0, 500));
        if (flag == "max-batch") limits.max_batch = number(flag, optarg, 1, 4096);
        if (flag == "queue") limits.queue = number(flag, optarg, 1, 65536);
        if (flag == "max-connections") parsed.options.max_connections = number(flag, optarg, 1, 10000);
        if (flag == "threads") parsed.threads = static_cast<std::uint32_t>(number(flag, optarg, 1, 64));
        if (flag == "library") parsed.torch_library = optarg;
        if (flag == "help" || flag == "version") {
            std::cout << (flag == "help" ? USAGE : "anole-policy-server " ANOLE_VERSION "\n");
            parsed.done = true;
            return parsed;
        }
    }
    if (optind < argc) throw UsageError(std::string("unexpected argument: ") + argv[optind]);
    if (parsed.options.socket.empty()) throw UsageError("--socket PATH is needed");
    if (parsed.options.models.empty()) throw UsageError("--models DIR is needed");
    return parsed;
}

void serve(const CommandLine& command) {
    // Before the library, which may start threads: they inherit that these signals wait for sigwait().
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGTERM);
    ::sigaddset(&signals, SIGINT);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    // Whoever reads the log may go; the server stays.
    ::signal(SIGPIPE, SIG_IGN);

    anole::Log log;
    const anole::Library library(command.torch_library);
    library.set_threads(command.threads);
    log.line(library.describe());

    const anole::Server server(
        command.options, [&library](const std::string& path) { return library.open(path); }, log);
    log.line("serving " + command.options.models + " at " + command.options.socket);
    int signal = 0;
    ::sigwait(&signals, &signal);
    const anole::Counters& counters = server.counters();
    log.line("ends by signal " + std::to_string(signal) + ": " + std::to_string(counters.answered) +
             " steps in " + std::to_string(counters.batches) + " batches, " +
             std::to_string(counters.expired) + " expired, " + std::to_string(counters.overloaded) +
             " refused by a full queue, " + std::to_string(counters.unread) + " answers not read, " +
             std::to_string(counters.failed) + " batches without memory");
}

}  // namespace

int main(int argc, char** argv) {
    try {
        const CommandLine command = parse(argc, argv);
        if (!command.done) serve(command);
        return 0;
    } catch (const UsageError& error) {
        if (*error.what() != '\0') std::cerr << "anole-policy-server: " << error.what() << '\n';
        return 2;
    } catch (const std::exception& error) {
        std::cerr << "anole-policy-server: " << error.what() << '\n';
        return 1;
    }
}
