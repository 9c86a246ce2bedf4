// The networks of ATen operations, through the C interface, against plain loops; and the program.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <thread>

#include "anole_policy.h"
#include "client.h"
#include "library.h"
#include "policy_writer.h"
#include "reference_network.h"

namespace anole {
namespace {

const Library& library() {
    static const Library loaded(LIBRARY);
    return loaded;
}

struct Case {
    const char* name;
    nlohmann::json network;
};

std::vector<Case> cases() {
    return {
        {"mlp", sequential(40, {{"dense", 512, "tanh"}, {"dense", 512, "tanh"}, {"dense", 1}})},
        {"activations", sequential(7, {{"dense", 31, "relu"},
                                       {"dense", 30, "leaky-relu-0.2"},
                                       {"dense", 29, "leaky-relu-0.01"},
                                       {"dense", 3, "none"}})},
        {"lstm", sequential(12, {{"lstm", 64}, {"lstm", 128}, {"dense", 4, "tanh"}})},
        {"gru-mixture",
         sequential(69, {{"dense", 96, "leaky-relu-0.2"}, {"gru", 128}, {"dense", 15}}, "mixture")},
        {"lstm-argmax", sequential(5, {{"lstm", 32}, {"dense", 5}}, "argmax")},
        {"gru-direct", sequential(3, {{"gru", 17}})},
        {"residual", sequential(12, {{"dense", 16, "relu"},
                                     {"layer-norm", 16, "tanh"},
                                     {"gru", 16},
                                     {"add", 16, "leaky-relu-0.2", {{"of", 0u}}},
                                     {"add", 16, "none", {{"of", 3u}}},
                                     {"dense", 1, "tanh"}})},
        {"convolution", sequential(12, {{"conv1d",
                                         18,
                                         "relu",
                                         {{"channels", {2u, 6u}},
                                          {"length", 6u},
                                          {"kernel", 4u},
                                          {"stride", 2u},
                                          {"padding", 1u},
                                          {"time_major", true}}},
                                        {"conv1d",
                                         12,
                                         "none",
                                         {{"channels", {6u, 3u}},
                                          {"length", 3u},
                                          {"kernel", 2u},
                                          {"stride", 1u},
                                          {"padding", 1u},
                                          {"time_major", false}}},
                                        {"dense", 1, "tanh"}})},
        {"hierarchical", hierarchical(12, 64, 128, 4)},
    };
}

class Networks : public ::testing::TestWithParam<std::size_t> {};

// 1000 steps, the state carried along, several rows with different inputs: outputs and states agree.
TEST_P(Networks, AgreeWithLoopsOverAThousandSteps) {
    const Case tested = cases()[GetParam()];
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/test.safetensors";
    write_file(path, to_bytes(random_policy(tested.network, 7)));
    const auto torch = library().open(path);
    const ReferenceNetwork reference(read_policy(path));
    ASSERT_TRUE(torch->shape() == reference.shape());
    const Shape& shape = torch->shape();

    const std::uint32_t rows = 3;
    std::vector<float> inputs(rows * shape.inputs), outputs(rows * shape.outputs), expected(outputs);
    std::vector<float> states(rows * shape.state), expected_states(states);
    double worst = 0;
    unsigned triggers = 0;
    for (int step = 0; step < 1000; step++) {
        for (std::size_t i = 0; i < inputs.size(); i++) {
            inputs[i] = static_cast<float>(
                std::sin(0.013 * step * static_cast<double>(i % 17 + 1) + 0.7 * static_cast<double>(i)));
        }
        torch->step(rows, inputs.data(), states.data(), outputs.data());
        reference.step(rows, inputs.data(), expected_states.data(), expected.data());
        for (std::size_t i = 0; i < outputs.size(); i++) {
            worst = std::max(worst, std::fabs(double{outputs[i]} - expected[i]));
        }
        for (std::size_t i = 0; i < states.size(); i++) {
            worst = std::max(worst, std::fabs(double{states[i]} - expected_states[i]));
        }
        for (std::uint32_t i = 0; i < rows; i++) triggers += outputs[(i + 1) * shape.outputs - 1] == 1.0F;
    }
    EXPECT_LE(worst, 1e-5) << tested.name;
    if (std::string(tested.name) == "hierarchical") {
        // Both branches were taken.
        EXPECT_GT(triggers, 0U);
        EXPECT_LT(triggers, 1000 * rows);
    }
}

INSTANTIATE_TEST_SUITE_P(All, Networks, ::testing::Range<std::size_t>(0, cases().size()),
                         [](const auto& info) {
                             std::string name = cases()[info.param].name;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

// The first of equal logits counts: index 1 of 1, 2, 2; of two components the mean 30.
TEST(Heads, TakeTheFirstOfEquals) {
    const TemporaryFolder folder;
    const auto answer = [&](const char* head, const std::vector<float>& last_layer) {
        const auto units = static_cast<std::uint32_t>(last_layer.size());
        PolicyParts parts = random_policy(sequential(1, {{"dense", units}}, head), 1);
        parts.tensors["layers.0.weight"].values.assign(units, 0);
        parts.tensors["layers.0.bias"].values = last_layer;
        write_file(folder.path() + "/test.safetensors", to_bytes(parts));
        const float input = 1;
        float output = 0;
        library().open(folder.path() + "/test.safetensors")->step(1, &input, nullptr, &output);
        return output;
    };
    EXPECT_EQ(answer("argmax", {1, 2, 2}), 1);
    EXPECT_EQ(answer("mixture", {2, 2, 30, 40, 0, 0}), 30);
    EXPECT_EQ(answer("mixture", {1, 2, 30, 40, 0, 0}), 40);
}

// A row's answer does not depend on which rows it is computed with, but for rounding.
TEST(Batches, RowsAreIndependent) {
    const TemporaryFolder folder;
    write_file(folder.path() + "/test.safetensors", to_bytes(random_policy(hierarchical(12, 64, 128, 4), 3)));
    const auto policy = library().open(folder.path() + "/test.safetensors");
    const Shape& shape = policy->shape();
    const std::uint32_t rows = 256;
    std::vector<float> inputs(rows * shape.inputs), states(rows * shape.state), outputs(rows * shape.outputs);
    for (std::size_t i = 0; i < inputs.size(); i++) inputs[i] = std::sin(static_cast<float>(i));
    for (std::size_t i = 0; i < states.size(); i++) states[i] = 0.5F * std::cos(static_cast<float>(i));
    std::vector<float> alone_states = states;
    policy->step(rows, inputs.data(), states.data(), outputs.data());
    for (std::uint32_t row = 0; row < rows; row++) {
        std::vector<float> alone(shape.outputs);
        policy->step(1, &inputs[row * shape.inputs], &alone_states[row * shape.state], alone.data());
        for (std::uint32_t i = 0; i < shape.outputs; i++) {
            ASSERT_NEAR(alone[i], outputs[row * shape.outputs + i], 1e-5) << row << " " << i;
        }
    }
    for (std::size_t i = 0; i < states.size(); i++) ASSERT_NEAR(alone_states[i], states[i], 1e-5);
}

// One policy, four threads at once: each gets what one thread gets.
TEST(Threads, ShareAPolicy) {
    const TemporaryFolder folder;
    write_file(folder.path() + "/test.safetensors", to_bytes(random_policy(cases()[2].network, 3)));
    const auto policy = library().open(folder.path() + "/test.safetensors");
    const auto trajectory = [&] {
        const Shape& shape = policy->shape();
        std::vector<float> inputs(shape.inputs, 0.3F), state(shape.state), outputs(shape.outputs), all;
        for (int i = 0; i < 200; i++) {
            policy->step(1, inputs.data(), state.data(), outputs.data());
            all.insert(all.end(), outputs.begin(), outputs.end());
        }
        return all;
    };
    const std::vector<float> alone = trajectory();
    std::vector<std::vector<float>> together(4);
    std::vector<std::thread> threads;
    for (auto& result : together) threads.emplace_back([&result, &trajectory] { result = trajectory(); });
    for (std::thread& thread : threads) thread.join();
    for (const auto& result : together) EXPECT_EQ(result, alone);
}

// Mistakes of the caller and of files come back as texts.
TEST(Interface, AnswersMistakesWithTexts) {
    const TemporaryFolder folder;
    EXPECT_NE(library().describe().find("LibTorch "), std::string::npos);
    EXPECT_THROW(library().set_threads(0), std::runtime_error);
    try {
        library().open(folder.path() + "/none.safetensors");
        FAIL();
    } catch (const std::runtime_error& error) {
        EXPECT_EQ(std::string(error.what()),
                  folder.path() + "/none.safetensors: cannot be opened: No such file or directory");
    }
    write_file(folder.path() + "/test.safetensors", to_bytes(random_policy(cases()[0].network, 3)));
    const auto policy = library().open(folder.path() + "/test.safetensors");
    float nothing = 0;
    EXPECT_THROW(policy->step(0, &nothing, nullptr, &nothing), std::runtime_error);
    EXPECT_THROW(policy->step(65537, &nothing, nullptr, &nothing), std::runtime_error);
    EXPECT_THROW(policy->step(1, nullptr, nullptr, &nothing), std::runtime_error);
    EXPECT_THROW(Library("/nowhere/lib.so"), std::runtime_error);
    EXPECT_THROW(Library("libc.so.6"), std::runtime_error);
}

// The program serves a policy, ends by SIGTERM with status 0, and leaves no socket behind.
TEST(Program, ServesAndEnds) {
    const TemporaryFolder folder;
    write_file(folder.path() + "/test.safetensors", to_bytes(random_policy(cases()[2].network, 3)));
    const std::string socket = folder.path() + "/socket";
    // Nobody reads its log any more.
    int log[2];
    ASSERT_EQ(::pipe(log), 0);
    ::close(log[0]);
    const pid_t child = ::fork();
    if (child == 0) {
        ::dup2(log[1], STDERR_FILENO);
        ::execl(SERVER, SERVER, "--socket", socket.c_str(), "--models", folder.path().c_str(), "--library",
                LIBRARY, nullptr);
        ::_exit(127);
    }
    ::close(log[1]);
    Client client(socket, std::chrono::seconds(60));
    const auto policy = library().open(folder.path() + "/test.safetensors");
    const Shape shape = policy->shape();
    const Opened opened = client.open("test", shape.schema_sha256);
    EXPECT_EQ(opened.status, 0U) << opened.text;
    std::vector<float> inputs(shape.inputs, 0.1F), state(shape.state), outputs(shape.outputs);
    const Answer answer = client.step(opened.handle, 1, 1000000, inputs, state);
    ASSERT_EQ(answer.status, 0U);
    policy->step(1, inputs.data(), state.data(), outputs.data());
    outputs.insert(outputs.end(), state.begin(), state.end());
    EXPECT_EQ(answer.values, outputs);

    ::kill(child, SIGTERM);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_NE(::access(socket.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace anole
