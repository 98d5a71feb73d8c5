//===- VerifyLists.h - Rules about the lists of all stages together -----------------------===//
//
// For the modes of programs, and for lists that are made for single steps.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_PROGRAM_VERIFY_VERIFYLISTS_H
#define RUNTIME_PROGRAM_VERIFY_VERIFYLISTS_H

#include "runtime/program/Program.h"
#include "runtime/support/Status.h"
#include <set>
#include <span>

namespace omnibal::rt {

/// A message's number, which is the same at both ends, and the stages there.
struct TransferEnds {
  int32_t id = 0;
  int32_t fromStage = 0, toStage = 0;
};

/// What one stage does. Both lists outlive checks.
struct StageActions {
  std::span<const Action> actions;
  std::vector<TransferEnds> transfers; ///< by `index` of actions on messages
  std::set<int32_t> sharedGroups;      ///< of parameters that it trains
};

/// Rule p7 for messages that not every micro-batch has: each that a list starts is started and
/// awaited once at either end, in this order. Indices are in range.
Status verifyEnds(const std::vector<StageActions> &stages, const std::string &where);

/// Rule p8: all lists end although a send completes only with its receive.
Status verifyRendezvous(const std::vector<StageActions> &stages, const std::string &where);

/// Rule p11, after p7: all lists end although each stage performs its messages one group after the
/// other, and both ends of a pair start its messages in one order.
Status verifyOneQueue(const std::vector<StageActions> &stages, const std::string &where);

} // namespace omnibal::rt
#endif // RUNTIME_PROGRAM_VERIFY_VERIFYLISTS_H
