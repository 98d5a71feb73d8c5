#include "runtime/comm/Gather.h"

namespace omnibal::rt {

Result<std::vector<std::string>> gatherTexts(Communicator &communicator, std::string mine) {
  constexpr int64_t tag = 0;
  auto message = [](std::string &text) {
    return Communicator::Piece{text.data(), static_cast<int64_t>(text.size())};
  };
  std::vector<std::string> texts;
  if (communicator.rank() != 0) {
    int64_t size = mine.size();
    Communicator::Piece length{&size, sizeof size}, text = message(mine);
    OMNIBAL_ASSIGN_OR_RETURN(auto first, communicator.send(0, tag, {&length, 1}));
    OMNIBAL_RETURN_IF_ERROR(communicator.wait(first));
    OMNIBAL_ASSIGN_OR_RETURN(auto second, communicator.send(0, tag, {&text, 1}));
    OMNIBAL_RETURN_IF_ERROR(communicator.wait(second));
    return texts;
  }
  texts.push_back(std::move(mine));
  for (int r = 1; r < communicator.size(); ++r) {
    int64_t size = 0;
    Communicator::Piece length{&size, sizeof size};
    OMNIBAL_ASSIGN_OR_RETURN(auto first, communicator.receive(r, tag, {&length, 1}));
    OMNIBAL_RETURN_IF_ERROR(communicator.wait(first));
    std::string theirs(size, '\0');
    Communicator::Piece text = message(theirs);
    OMNIBAL_ASSIGN_OR_RETURN(auto second, communicator.receive(r, tag, {&text, 1}));
    OMNIBAL_RETURN_IF_ERROR(communicator.wait(second));
    texts.push_back(std::move(theirs));
  }
  return texts;
}

} // namespace omnibal::rt
