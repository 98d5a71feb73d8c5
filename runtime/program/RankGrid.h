//===- RankGrid.h - Which rank is what in a program -------------------------------------------===//
//
// Ranks are numbered replica by replica and within one stage by stage, or stage by stage and within
// one replica by replica (RankOrder), and in both part by part within a replica's stage.
// Neighboring replicas may run a micro-batch together, as a context group; how many do so depends
// on the mode. Nothing else turns numbers of ranks into coordinates or coordinates into groups of
// ranks.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_PROGRAM_RANKGRID_H
#define RUNTIME_PROGRAM_RANKGRID_H

#include "runtime/program/Program.h"

namespace omnibal::rt {

struct RankPlace {
  int replica = 0, stage = 0;
  int part = 0; ///< of the ranks that run a replica's stage together

  friend bool operator==(const RankPlace &, const RankPlace &) = default;
};

struct RankGrid {
  int replicas = 1, stages = 1, parts = 1;
  RankOrder order = RankOrder::Stage;

  RankGrid(int replicas, int stages, int parts = 1, RankOrder order = RankOrder::Stage)
      : replicas(replicas), stages(stages), parts(parts), order(order) {}
  explicit RankGrid(const Program &program)
      : RankGrid(program.dataParallel, program.stages, program.modelParallel, program.rankOrder) {}

  int ranks() const { return replicas * stages * parts; }
  int rankOf(const RankPlace &place) const {
    if (order == RankOrder::Stage)
      return numberOf(place);
    return (place.stage * replicas + place.replica) * parts + place.part;
  }
  RankPlace placeOf(int rank) const {
    if (order == RankOrder::Stage)
      return placeAt(rank);
    return {rank / parts % replicas, rank / parts / replicas, rank % parts};
  }

  // Places in an order that is the same however ranks are numbered: what is added up in it has the
  // same bits.
  int numberOf(const RankPlace &place) const {
    return (place.replica * stages + place.stage) * parts + place.part;
  }
  RankPlace placeAt(int number) const {
    return {number / parts / stages, number / parts % stages, number % parts};
  }

  /// "2 stages x 4 data-parallel ranks", and "x 2 parts" where there are several.
  std::string product() const {
    return std::to_string(stages) + " stages x " + std::to_string(replicas) +
           " data-parallel ranks" + (parts > 1 ? " x " + std::to_string(parts) + " parts" : "");
  }
  /// "stage 1", and ", part 0" where there are several.
  std::string placeText(int rank) const {
    const RankPlace place = placeOf(rank);
    return "stage " + std::to_string(place.stage) +
           (parts > 1 ? ", part " + std::to_string(place.part) : "");
  }

  /// Which one a rank is of those that run a micro-batch together: of its stage's parts, or of its
  /// context group of `degree`.
  int partIn(const RankPlace &place, int degree) const {
    return parts > 1 ? place.part : place.replica % degree;
  }

  // Groups of ranks, each ascending.
  /// Those that run a replica's stage together.
  std::vector<int> partsOf(int replica, int stage) const {
    std::vector<int> group;
    for (int part = 0; part < parts; ++part)
      group.push_back(rankOf({replica, stage, part}));
    return group;
  }
  /// Those of a stage that are in a replica's context group of `degree`.
  std::vector<int> contextOf(int replica, int stage, int degree) const {
    std::vector<int> group;
    for (int first = replica / degree * degree, i = 0; i < degree; ++i)
      group.push_back(rankOf({first + i, stage, 0}));
    return group;
  }
  /// Those that run what an entry of Program::stageList says.
  std::vector<int> ranksOf(const Program &program, const Stage &entry) const {
    if (program.entries() == 1)
      return holdersOf(entry.id);
    if (program.hasOwnParts())
      return replicasOf(entry.id, entry.part);
    std::vector<int> group;
    for (int replica = entry.part; replica < replicas; replica += program.entries())
      group.push_back(rankOf({replica, entry.id, 0}));
    return group;
  }
  /// Those that hold the same part of a stage.
  std::vector<int> replicasOf(int stage, int part = 0) const {
    std::vector<int> group;
    for (int replica = 0; replica < replicas; ++replica)
      group.push_back(rankOf({replica, stage, part}));
    return group;
  }
  /// All that run a stage.
  std::vector<int> holdersOf(int stage) const {
    std::vector<int> group;
    for (int replica = 0; replica < replicas; ++replica)
      for (int part = 0; part < parts; ++part)
        group.push_back(rankOf({replica, stage, part}));
    return group;
  }
  /// Those of a replica that are the same part of some of its stages.
  template <typename Stages>
  std::vector<int> sharersOf(int replica, const Stages &ofStages, int part = 0) const {
    std::vector<int> group;
    for (int stage : ofStages)
      group.push_back(rankOf({replica, stage, part}));
    return group;
  }
};

} // namespace omnibal::rt
#endif // RUNTIME_PROGRAM_RANKGRID_H
