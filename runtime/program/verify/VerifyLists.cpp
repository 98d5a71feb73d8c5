//===- VerifyLists.cpp - Rule p7 for lists of single steps -------------------------------===//
#include "runtime/program/verify/VerifyLists.h"
#include "runtime/program/Names.h"
#include "runtime/program/verify/VerifierInternal.h"
#include <map>

namespace omnibal::rt {
namespace {

/// How far each stage's end of each message comes.
class MessageEnds {
public:
  MessageEnds(const std::vector<StageActions> &stages, const std::string &where)
      : where(where), stages(stages), progress(stages.size()) {}

  Status run() {
    for (size_t s = 0; s < stages.size(); ++s)
      for (const Action &action : stages[s].actions)
        if (action.kind >= ActionKind::PostRecv && action.kind <= ActionKind::WaitSend)
          OMNIBAL_RETURN_IF_ERROR(advance(s, action));
    for (size_t s = 0; s < stages.size(); ++s)
      for (const auto &[message, end] : progress[s])
        OMNIBAL_RETURN_IF_ERROR(checkEnd(s, message, end));
    return Status::ok();
  }

private:
  using Message = std::pair<int32_t, Unit>; ///< TransferEnds::id
  struct End {
    bool isAwaited = false;
    bool sends = false;
    int32_t peer = 0;
  };

  Status advance(size_t stage, const Action &action) {
    const TransferEnds &ends = stages[stage].transfers[action.index];
    Message message{ends.id, action.unit()};
    bool sends = action.kind == ActionKind::Send || action.kind == ActionKind::WaitSend;
    if ((sends ? ends.fromStage : ends.toStage) != static_cast<int32_t>(stage))
      return wrong(stage, message, "the transfer goes the other way");
    if (action.kind == ActionKind::Send || action.kind == ActionKind::PostRecv) {
      End end{false, sends, sends ? ends.toStage : ends.fromStage};
      return progress[stage].emplace(message, end).second
                 ? Status::ok()
                 : wrong(stage, message, "it is started twice");
    }
    auto started = progress[stage].find(message);
    if (started == progress[stage].end())
      return wrong(stage, message, "the wait comes before its post");
    if (started->second.isAwaited)
      return wrong(stage, message, "it is awaited twice");
    started->second.isAwaited = true;
    return Status::ok();
  }

  Status checkEnd(size_t stage, const Message &message, const End &end) const {
    if (!end.isAwaited)
      return wrong(stage, message, "nothing waits for it");
    if (!progress[end.peer].contains(message))
      return wrong(end.peer, message,
                   end.sends ? "its post_recv is missing" : "its send is missing");
    return Status::ok();
  }

  Status wrong(size_t stage, const Message &message, const char *what) const {
    return broken("p7",
                  where + ", stage " + std::to_string(stage) + ", transfer " +
                      std::to_string(message.first) + ", " + nameOf(message.second),
                  what);
  }

  const std::string &where;
  const std::vector<StageActions> &stages;
  std::vector<std::map<Message, End>> progress; ///< by stage
};

} // namespace

Status verifyEnds(const std::vector<StageActions> &stages, const std::string &where) {
  return MessageEnds(stages, where).run();
}

} // namespace omnibal::rt
