//===- Messages.h - Ranks that are threads, over every way to talk ----------------------------===//
#ifndef TEST_UNIT_RUNTIME_COMM_MESSAGES_H
#define TEST_UNIT_RUNTIME_COMM_MESSAGES_H

#include "runtime/comm/tcp/TcpCommunicator.h"
#include "runtime/comm/threads/ThreadCommunicator.h"
#include <gtest/gtest.h>
#include <string>
#include <thread>

namespace omnibal::rt {

using namespace std::chrono_literals;

/// A port that nobody listens on now.
inline int freePort() {
  int port = 0;
  EXPECT_TRUE(Socket::listen(0, port));
  return port;
}

/// Through what the ranks talk: "threads" or "tcp".
class Messages : public testing::TestWithParam<const char *> {
protected:
  /// Runs body(communicator) on each rank's own thread.
  template <typename F> void onRanks(int ranks, std::chrono::milliseconds deadline, F body) {
    std::vector<std::unique_ptr<Communicator>> communicators(ranks);
    bool tcp = std::string(GetParam()) == "tcp";
    if (!tcp)
      communicators = createThreadCommunicators(ranks, deadline);
    int port = tcp ? freePort() : 0;
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        if (tcp) {
          TcpOptions options;
          options.place = {r, ranks, "localhost", port, 1};
          options.deadline = 20s; // of meeting
          auto made = createTcpCommunicator(options, deadline);
          ASSERT_TRUE(made) << made.status().message();
          communicators[r] = *std::move(made);
        }
        body(*communicators[r]);
      });
    for (std::thread &t : threads)
      t.join();
    // Ended at the same time, as ranks are.
    threads.clear();
    for (auto &communicator : communicators)
      threads.emplace_back([&communicator] { communicator.reset(); });
    for (std::thread &t : threads)
      t.join();
  }
};

/// Values for which the order of addition shows in the last bits.
inline float term(int rank, int64_t i) {
  return 1.0f / static_cast<float>((i * 31 + rank * 1009) % 977 + 3);
}

} // namespace omnibal::rt
#endif // TEST_UNIT_RUNTIME_COMM_MESSAGES_H
