// Trains the tiny program on ranks that are threads or processes, and prints losses
// and a checksum of every rank's parameters. For ProcessesTest.cpp.
//   rank-driver WEIGHTS [fail | hang | die]     rank 1 fails, never comes or is killed in step 2
#include "runtime/comm/launch/Launch.h"
#include "runtime/support/Checksum.h"
#include "test/unit/runtime/executor/TinyRun.h"
#include <csignal>
#include <cstdio>
#include <mutex>
#include <thread>

using namespace omnibal::rt;

int main(int argc, char **argv) {
  std::string weights = argv[1], fault = argc > 2 ? argv[2] : "";
  LoadedProgram program = loadedTiny({2, 3, 2, true});
  StepOptions options;
  options.update.rates = decayAndNone(0.05, 0.01);
  std::mutex mutex;
  auto place = readLaunchEnvironment();
  if (!place) {
    std::fprintf(stderr, "%s\n", place.status().message().c_str());
    return 1;
  }
  return launch(*place, {4}, [&](RankContext &context) -> Status {
    Communicator &c = context.communicator;
    int steps = fault.empty() ? 4 : 1;
    TinyOutcome outcome = trainTiny(program, weights, c, steps, options);
    OMNIBAL_RETURN_IF_ERROR(outcome.status);
    if (!fault.empty()) {
      c.announce({.step = 1, .stage = c.rank() % 2, .microbatch = 0, .action = "forward"});
      if (c.rank() == 1 && fault == "fail")
        return invalid("rank 1 was told to fail");
      if (c.rank() == 1 && fault == "die") {
        std::this_thread::sleep_for(std::chrono::seconds(1)); // it is heard of before
        std::raise(SIGKILL);
      }
      if (c.rank() == 1)
        std::this_thread::sleep_for(std::chrono::hours(1));
      return c.barrier(c.everyone());
    }
    // In shares, as parameters go.
    std::string told(3 << 20, char('0' + c.rank()));
    if (c.rank() == 2)
      for (size_t i = 0; i < told.size(); ++i)
        told[i] = static_cast<char>(i * 7 % 251);
    const uint64_t expected = [] {
      std::string all(3 << 20, 0);
      for (size_t i = 0; i < all.size(); ++i)
        all[i] = static_cast<char>(i * 7 % 251);
      return fnv1a(all);
    }();
    OMNIBAL_RETURN_IF_ERROR(c.broadcast(told, 2));
    if (fnv1a(told) != expected)
      return invalid("what rank 2 told is not what rank " + std::to_string(c.rank()) + " heard");
    // Shares of a sum, each of which its owner then tells: the same as the sum.
    std::vector<float> shares(400'000), sum;
    for (size_t i = 0; i < shares.size(); ++i)
      shares[i] = 1.0f / static_cast<float>(i % 977 + 3 * c.rank() + 1);
    sum = shares;
    const std::vector<int> everyone = c.everyone();
    std::vector<OwnedPiece> pieces;
    for (int64_t at = 0, size = 70'001; at < 400'000; at += size)
      pieces.push_back(
          {&shares[at], std::min(size, 400'000 - at) * 4, static_cast<int>(at / size) % c.size()});
    OMNIBAL_RETURN_IF_ERROR(c.allReduce(std::span<float>(sum), everyone));
    OMNIBAL_RETURN_IF_ERROR(c.reduceScatter(pieces, everyone));
    OMNIBAL_RETURN_IF_ERROR(c.allGather(pieces, everyone));
    if (shares != sum)
      return invalid("rank " + std::to_string(c.rank()) + " has other shares than sums");
    std::lock_guard<std::mutex> lock(mutex);
    std::string line = "rank " + std::to_string(c.rank());
    char text[64];
    for (const StepResult &step : outcome.steps) {
      std::snprintf(text, sizeof text, " %a %a", step.loss, step.gradientNorm);
      line += text;
    }
    for (const auto &p : outcome.parameters)
      line += " " + checksumText(fnv1a({reinterpret_cast<const char *>(p.data()), p.size() * 4}));
    std::printf("%s\n", line.c_str());
    return Status::ok();
  });
}
