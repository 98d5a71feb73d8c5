#include "runtime/comm/Communicator.h"
#include <cstdlib>

namespace omnibal::rt {
std::string stepForPeople(int64_t step) { return "step " + std::to_string(step + 1); }

std::string toString(const Activity &a) {
  std::string text = a.step >= 0 ? stepForPeople(a.step) + ", " : "";
  if (a.stage >= 0)
    text += "stage " + std::to_string(a.stage) + ", ";
  if (a.part >= 0)
    text += "part " + std::to_string(a.part) + ", ";
  if (a.microbatch >= 0)
    text += "micro-batch " + std::to_string(a.microbatch) + ", ";
  return text + a.action;
}

Communicator::Milliseconds deadlineFromEnvironment() {
  if (const char *text = std::getenv("OMNIBAL_DEADLINE_SECONDS")) {
    char *end = nullptr;
    double seconds = std::strtod(text, &end);
    if (end != text && *end == 0 && seconds > 0 && seconds < 1e9)
      return Communicator::Milliseconds(static_cast<int64_t>(seconds * 1000));
  }
  return Communicator::defaultDeadline;
}

Result<Communicator::Handle> Communicator::start(Direction direction, int peer, int64_t tag,
                                                 std::span<const Piece> pieces) {
  if (peer < 0 || peer >= size() || peer == rank())
    return Status(Code::Internal, "there is no rank " + std::to_string(peer) + " to talk to");
  if (direction == Direction::Send) {
    ++sent.messages;
    for (const Piece &piece : pieces)
      sent.bytes += piece.bytes;
  }
  return post(direction, peer, tag, pieces);
}

std::vector<int> Communicator::everyone() const {
  std::vector<int> ranks(size());
  for (int r = 0; r < size(); ++r)
    ranks[r] = r;
  return ranks;
}

} // namespace omnibal::rt
