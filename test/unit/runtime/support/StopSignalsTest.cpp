// Each case is a process of its own, as handlers stay once they are set.
#include "runtime/support/StopSignals.h"
#include <chrono>
#include <csignal>
#include <gtest/gtest.h>
#include <thread>

namespace omnibal::rt {
namespace {

TEST(StopSignalsTest, TheFirstOneIsARequest) {
  for (int signal : {SIGTERM, SIGINT, SIGUSR1})
    EXPECT_EXIT(
        {
          catchStopSignals();
          const bool before = stopWasRequested();
          std::raise(signal);
          const std::string name = signal == SIGTERM  ? "SIGTERM"
                                   : signal == SIGINT ? "SIGINT"
                                                      : "SIGUSR1";
          std::_Exit(!before && stopWasRequested() && stopSignalName() == name ? 7 : 8);
        },
        testing::ExitedWithCode(7), "");
}

TEST(StopSignalsTest, OneKeyPressMayComeTwice) {
  EXPECT_EXIT(
      {
        catchStopSignals();
        std::raise(SIGINT);
        std::raise(SIGTERM);
        std::_Exit(stopSignalName() == "SIGINT" ? 7 : 8);
      },
      testing::ExitedWithCode(7), "");
}

TEST(StopSignalsTest, ALaterOneEndsTheProcessAtOnce) {
  EXPECT_EXIT(
      {
        catchStopSignals();
        std::raise(SIGTERM);
        std::this_thread::sleep_for(std::chrono::milliseconds(1100));
        std::raise(SIGINT);
        std::_Exit(8);
      },
      testing::KilledBySignal(SIGINT), "");
}

} // namespace
} // namespace omnibal::rt
