#include "runtime/training/session/RunOptions.h"

namespace omnibal::rt {

bool RunOptions::isCheckpointTime(std::chrono::duration<double> sinceLast) const {
  const std::chrono::duration<double, std::ratio<60>> wanted(checkpointMinutes);
  return checkpointEvery == 0 && checkpointMinutes > 0 && sinceLast >= wanted;
}

} // namespace omnibal::rt
