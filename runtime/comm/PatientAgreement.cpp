#include "runtime/comm/PatientAgreement.h"
#include <algorithm>
#include <iostream>

namespace omnibal::rt {
namespace {

using Time = std::chrono::steady_clock;

/// Rounds begin short, for work that is done at once, and become longer.
constexpr std::chrono::milliseconds firstRound{1}, longestRound{500};
/// After so long a rank says that the others wait for it, and then after twice the time.
constexpr std::chrono::seconds patience{60};

} // namespace

Status agreeOn(Communicator &communicator, BackgroundWork &work) {
  if (communicator.size() == 1)
    return work.take();
  const std::vector<int> everyone = communicator.everyone();
  const auto most = std::clamp(deadlineFromEnvironment() / 8, firstRound, longestRound);
  const Time::time_point begin = Time::now();
  auto told = std::chrono::seconds(0);
  for (auto round = firstRound;; round = std::min(round * 2, most)) {
    double atWork = !work.waitFor(round);
    const auto since = std::chrono::duration_cast<std::chrono::seconds>(Time::now() - begin);
    if (atWork > 0 && since >= std::max(patience, told * 2)) {
      told = since;
      std::cerr << "omnibal-run: notice: rank " << communicator.rank()
                << " has been reading or writing files for " << since.count()
                << " s; the others wait for it" << std::endl;
    }
    OMNIBAL_RETURN_IF_ERROR(communicator.allReduce(std::span<double>(&atWork, 1), everyone));
    if (atWork == 0)
      return communicator.agree(work.take());
  }
}

Status agreeAfter(Communicator &communicator, const std::function<Status()> &work) {
  if (communicator.size() == 1)
    return work();
  BackgroundWork background;
  background.start([&work](const std::atomic<bool> &) { return work(); });
  return agreeOn(communicator, background);
}

} // namespace omnibal::rt
