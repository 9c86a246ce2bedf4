// Policy files that change under a running server.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "serving.h"

namespace anole {
namespace {

// Asks until `done` holds of the answer, for at most 10 s.
template <typename Done>
bool eventually(Client& client, std::uint32_t handle, const Done& done) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < until) {
        if (done(client.step(handle, 1, LONG_US, INPUT, ZEROS))) return true;
    }
    return false;
}

TEST(Reload, ANewFileIsServedUnderTheSameHandle) {
    Serving serving;
    Client client(serving.socket());
    const std::uint32_t handle = client.open("test", serving.schema()).handle;
    const PolicyParts old_policy = random_policy(Serving::network(), 1);
    const PolicyParts new_policy = random_policy(Serving::network(), 2);
    const auto before = Serving::expected(old_policy, INPUT, ZEROS);
    const auto after = Serving::expected(new_policy, INPUT, ZEROS);
    ASSERT_NE(before, after);
    EXPECT_EQ(client.step(handle, 1, LONG_US, INPUT, ZEROS).values, before);
    serving.put("test", new_policy);
    // Every answer is whole: of the old policy or of the new one.
    EXPECT_TRUE(eventually(client, handle, [&](const Answer& answer) {
        EXPECT_EQ(answer.status, 0U);
        EXPECT_TRUE(answer.values == before || answer.values == after);
        return answer.values == after;
    }));
}

TEST(Reload, ABadFileLeavesTheOldOne) {
    Serving serving;
    Client client(serving.socket());
    const std::uint32_t handle = client.open("test", serving.schema()).handle;
    const auto before = Serving::expected(random_policy(Serving::network(), 1), INPUT, ZEROS);
    PolicyParts spoilt = random_policy(Serving::network(), 2);
    spoilt.tensors["layers.0.bias_ih"].values[0] = std::nanf("");
    serving.put("test", spoilt);
    // A file that nobody had before is refused with its reason; then the one above was seen, too.
    write_file(serving.file("second"), "short");
    Opened second = client.open("second", serving.schema());
    for (int i = 0; i < 2000 && second.text.find("truncated") == std::string::npos; i++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        second = client.open("second", serving.schema());
    }
    EXPECT_EQ(second.status, 4U);
    EXPECT_EQ(second.text, serving.file("second") + ": truncated: 5 bytes");
    EXPECT_EQ(client.step(handle, 1, LONG_US, INPUT, ZEROS).values, before);
    EXPECT_EQ(client.open("test", serving.schema()).status, 0U);
}

TEST(Reload, AnotherSchemaEndsTheHandle) {
    Serving serving;
    Client client(serving.socket());
    const std::uint32_t handle = client.open("test", serving.schema()).handle;
    const PolicyParts changed = random_policy(Serving::network(), 2, "name = \"changed\"\n");
    serving.put("test", changed);
    EXPECT_TRUE(eventually(client, handle, [](const Answer& answer) { return answer.status == 4; }));
    EXPECT_EQ(client.open("test", serving.schema()).status, 4U);
    const Opened opened = client.open("test", changed.manifest["schema_sha256"]);
    EXPECT_EQ(opened.status, 0U);
    EXPECT_NE(opened.handle, handle);
    EXPECT_EQ(client.step(opened.handle, 1, LONG_US, INPUT, ZEROS).values,
              Serving::expected(changed, INPUT, ZEROS));
    // Back again: the first handle serves as before.
    serving.put("test", random_policy(Serving::network(), 1));
    EXPECT_TRUE(eventually(client, handle, [](const Answer& answer) { return answer.status == 0; }));
}

TEST(Reload, ARemovedFileIsGoneUntilItComesBack) {
    Serving serving;
    Client client(serving.socket());
    const std::uint32_t handle = client.open("test", serving.schema()).handle;
    std::filesystem::remove(serving.file("test"));
    EXPECT_TRUE(eventually(client, handle, [](const Answer& answer) { return answer.status == 4; }));
    serving.put("test", random_policy(Serving::network(), 1));
    EXPECT_TRUE(eventually(client, handle, [](const Answer& answer) { return answer.status == 0; }));
}

// A release is put in place by pointing a link to it, of which a watched folder says nothing.
TEST(Reload, LinksAreFollowedToWhatTheyLeadToNow) {
    const PolicyParts policies[] = {random_policy(Serving::network(), 1),
                                    random_policy(Serving::network(), 2)};
    TemporaryFolder folder;
    const auto at = [&](const char* name) { return folder.path() + "/" + name; };
    const auto point = [&](const std::string& link, const std::string& target) {
        std::filesystem::create_symlink(target, at("new-link"));
        std::filesystem::rename(at("new-link"), link);
    };
    for (const int n : {0, 1}) {
        std::filesystem::create_directory(at(n == 0 ? "v0" : "v1"));
        write_file(at(n == 0 ? "v0/test.safetensors" : "v1/test.safetensors"), to_bytes(policies[n]));
    }
    std::filesystem::create_directory(at("files"));
    point(at("release"), "v0");
    point(at("files/test.safetensors"), at("release/test.safetensors"));
    Log log;
    // The folder is a link, or the file in it leads through one.
    for (const char* models : {"release", "files"}) {
        point(at("release"), "v0");
        const Server server(
            {at("socket"), at(models), {}, 256},
            [](const std::string& path) { return std::make_shared<ReferenceNetwork>(read_policy(path)); },
            log);
        Client client(at("socket"));
        const std::uint32_t handle = client.open("test", policies[0].manifest["schema_sha256"]).handle;
        for (const int n : {1, 0, 1}) {
            point(at("release"), n == 0 ? "v0" : "v1");
            const auto expected = Serving::expected(policies[n], INPUT, ZEROS);
            EXPECT_TRUE(
                eventually(client, handle, [&](const Answer& answer) { return answer.values == expected; }))
                << models << " to v" << n;
        }
        // A folder that is swapped is followed where it is now.
        if (std::string(models) == "release") {
            write_file(at("v1/test.safetensors"), to_bytes(policies[0]));
            const auto expected = Serving::expected(policies[0], INPUT, ZEROS);
            EXPECT_TRUE(eventually(client, handle, [&](const Answer& a) { return a.values == expected; }));
            write_file(at("v1/test.safetensors"), to_bytes(policies[1]));
        }
    }
}

// The inode stays, or is the next file's at once.
TEST(Reload, ATargetThatIsWrittenAgainOrGoneIsFollowed) {
    Serving serving;
    Client client(serving.socket());
    const std::uint32_t handle = client.open("test", serving.schema()).handle;
    const TemporaryFolder folder;
    const std::string target = folder.path() + "/target", link = serving.folder.path() + "/link";
    const auto served = [&](unsigned seed) {
        const auto expected = Serving::expected(random_policy(Serving::network(), seed), INPUT, ZEROS);
        return eventually(client, handle, [&](const Answer& answer) { return answer.values == expected; });
    };
    const auto gone = [&] {
        return eventually(client, handle, [](const Answer& answer) { return answer.status == 4; });
    };
    write_file(target, to_bytes(random_policy(Serving::network(), 2)));
    std::filesystem::create_symlink(target, link);
    std::filesystem::rename(link, serving.file("test"));
    EXPECT_TRUE(served(2));
    write_file(target, to_bytes(random_policy(Serving::network(), 3)));
    EXPECT_TRUE(served(3)) << "written in place";
    std::filesystem::remove(target);
    write_file(target, to_bytes(random_policy(Serving::network(), 4)));
    EXPECT_TRUE(served(4)) << "removed and made again";
    std::filesystem::remove(target);
    EXPECT_TRUE(gone()) << "it leads nowhere";
    write_file(target, to_bytes(random_policy(Serving::network(), 4)));
    EXPECT_TRUE(served(4)) << "it leads somewhere again";
    std::filesystem::remove(serving.file("test"));
    EXPECT_TRUE(gone()) << "the link is gone";
    std::filesystem::create_symlink(target, serving.file("test"));
    EXPECT_TRUE(served(4)) << "the link is there again";
}

// Something else in the folder is written more often than links are looked at.
TEST(Reload, LinksAreFollowedWhileTheFolderIsWritten) {
    Serving serving;
    Client client(serving.socket());
    const std::uint32_t handle = client.open("test", serving.schema()).handle;
    const PolicyParts released = random_policy(Serving::network(), 2);
    TemporaryFolder folder;
    write_file(folder.path() + "/release", to_bytes(released));
    std::filesystem::create_symlink(folder.path() + "/release", serving.folder.path() + "/link");
    std::filesystem::rename(serving.folder.path() + "/link", serving.file("test"));
    const auto expected = Serving::expected(released, INPUT, ZEROS);
    EXPECT_TRUE(eventually(client, handle, [&](const Answer& answer) { return answer.values == expected; }));
    const PolicyParts next = random_policy(Serving::network(), 3);
    write_file(folder.path() + "/next", to_bytes(next));
    std::filesystem::rename(folder.path() + "/next", folder.path() + "/release");
    const auto after = Serving::expected(next, INPUT, ZEROS);
    EXPECT_TRUE(eventually(client, handle, [&](const Answer& answer) {
        write_file(serving.folder.path() + "/other", "written");
        return answer.values == after;
    }));
}

// Files that change all the time under load: no answer is torn, none is missing.
TEST(Reload, UnderLoad) {
    Limits limits;
    limits.window = std::chrono::microseconds(0);
    Serving serving(limits);
    const PolicyParts policies[] = {random_policy(Serving::network(), 1),
                                    random_policy(Serving::network(), 2)};
    const auto first = Serving::expected(policies[0], INPUT, ZEROS);
    const auto second = Serving::expected(policies[1], INPUT, ZEROS);
    std::atomic<bool> done{false};
    std::thread writer([&] {
        for (int i = 0; i < 200; i++) {
            serving.put("test", policies[i % 2]);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        done = true;
    });
    unsigned of_first = 0, of_second = 0, torn = 0;
    {
        Client client(serving.socket());
        const std::uint32_t handle = client.open("test", serving.schema()).handle;
        while (!done) {
            const Answer answer = client.step(handle, 1, LONG_US, INPUT, ZEROS);
            of_first += answer.values == first;
            of_second += answer.values == second;
            torn += answer.values != first && answer.values != second;
        }
    }
    writer.join();
    EXPECT_EQ(torn, 0U);
    EXPECT_GT(of_first, 0U);
    EXPECT_GT(of_second, 0U);
}

// A folder that is not there is the start's error.
TEST(Reload, TheFolderMustBeThere) {
    const TemporaryFolder folder;
    Log log;
    try {
        const Models models(folder.path() + "/none", nullptr, log);
        FAIL();
    } catch (const std::runtime_error& error) {
        EXPECT_EQ(std::string(error.what()),
                  "--models " + folder.path() +
                      "/none: the directory cannot be followed: No such file or directory");
    }
}

}  // namespace
}  // namespace anole
