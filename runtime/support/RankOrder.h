//===- RankOrder.h - Which ranks are neighbors ------------------------------------------------===//
#ifndef RUNTIME_SUPPORT_RANKORDER_H
#define RUNTIME_SUPPORT_RANKORDER_H

#include <array>
#include <cstdint>

namespace omnibal::rt {

/// How the ranks of a program are numbered. Machines hold ranks of neighboring numbers, so this
/// decides who talks over the links inside a machine. The parts of a stage are neighbors anyway.
enum class RankOrder : uint8_t {
  Stage,   ///< the stages of a replica are neighbors
  Replica, ///< the replicas of a stage are
};

/// In files, by order.
inline constexpr std::array<const char *, 2> rankOrderNames = {"stage", "replica"};

} // namespace omnibal::rt
#endif // RUNTIME_SUPPORT_RANKORDER_H
