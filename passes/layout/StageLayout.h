//===- StageLayout.h - Where everything of one stage lies in one mode --------------------===//
#ifndef PASSES_LAYOUT_STAGELAYOUT_H
#define PASSES_LAYOUT_STAGELAYOUT_H

#include "passes/common/OffsetAssignment.h"
#include "passes/layout/MemoryGraph.h"
#include <set>

namespace omnibal::layout {

/// Builds one stage's rt::Mode: regions, chunks with their calls, offsets. Every region's lifetime
/// follows from the actions that use it, so a region is as small as the schedule allows. Types and
/// shapes of values are left open, and a call that adds up gradients has -1 - edge as its function.
class StageLayout {
public:
  StageLayout(const MemoryGraph &graph, StageMode purpose, int64_t stage,
              const std::vector<schedule::Message> &messages);

  /// Decides locations and bindings for the stage's action list; returns an error text.
  std::string build(std::vector<rt::Action> actions, int64_t microbatches);
  /// Gives every region its offset per micro-batch from `base` on; returns the bytes used.
  int64_t placeRegions(int64_t base);

  rt::Transfer sendSide(size_t message) const;
  rt::Transfer receiveSide(size_t message) const;
  int64_t messageBytes() const;
  rt::Mode &mode() { return theMode; }

private:
  enum class RegionKind { Work, Kept, Message, Batch, Result };
  struct RegionUse {
    RegionKind kind;
    std::set<std::pair<rt::ActionKind, int64_t>> touched; ///< (computing kind, chunk)
    std::vector<int32_t> sends, receives;                 ///< messages
  };
  /// A list of layer calls under construction; transient buffers get offsets at its end.
  struct CallList {
    std::vector<rt::LayerCall> calls;
    std::vector<Block> blocks;
    rt::ActionKind kind;
    int64_t chunk;
  };

  int32_t addRegion(std::string name, RegionKind kind);
  int64_t grow(int32_t region, int64_t bytes);
  int64_t functionOf(int64_t call, rt::ActionKind kind) const;
  bool readByBackward(int64_t call, rt::Role role, int64_t index) const;
  bool readByWeightGrad(int64_t call, rt::Role role, int64_t index) const;
  bool outputReadByWeightGrad(int64_t edge) const;
  rt::Location keep(int64_t chunk, bool untilWeightGrad, int64_t bytes);
  rt::Location hold(int64_t chunk, int64_t bytes);

  void placeReceives(int64_t chunk);
  void placeSends(int64_t chunk);
  std::string buildForward(rt::Chunk &chunk);
  std::string buildBackward(rt::Chunk &chunk, rt::ActionKind kind, std::vector<rt::LayerCall> &out);
  std::string buildWeightGrad(rt::Chunk &chunk);
  bool isRun(int64_t chunk, rt::ActionKind kind) const;
  std::string keptLocation(int64_t call, const FormalMemory &formal, rt::Location &out) const;
  rt::Location gradInputLocation(CallList &list, int64_t edge, int64_t bytes);
  rt::Location transient(CallList &list, int64_t bytes);
  std::string bind(CallList &list, int64_t call, int64_t function,
                   const std::map<std::pair<rt::Role, int64_t>, rt::Location> &special);
  void finish(CallList &list, std::vector<rt::LayerCall> &out);
  void touch(const rt::Location &location, const CallList &list);
  void addAccumulate(CallList &list, int64_t edge, rt::Location from, rt::Location into);
  rt::Location batchLocation(const FormalMemory &formal);
  rt::Location resultLocation(const std::string &name, int64_t bytes);
  std::string forwardLocation(int64_t edge, int64_t chunk, rt::Location &out) const;
  std::pair<int64_t, int64_t> lifetime(int32_t region, int64_t microbatch) const;

  const MemoryGraph &graph;
  StageMode purpose;
  int64_t stage;
  const std::vector<schedule::Message> &messages;
  rt::Mode theMode;
  std::vector<RegionUse> uses; ///< parallel to theMode.regions
  int32_t workRegion = -1;
  std::map<int64_t, rt::Location> valueLocation;                        ///< edge made here
  std::map<std::pair<int64_t, int64_t>, rt::Location> receivedLocation; ///< (edge, chunk)
  std::map<std::pair<int64_t, int64_t>, rt::Location> gradOutLocation;  ///< (edge, chunk)
  std::map<std::pair<int64_t, int64_t>, rt::Location> gradInLocation;   ///< (edge, from chunk)
  std::map<std::pair<int64_t, int64_t>, rt::Location> savedLocation;    ///< (call, index)
  std::map<std::pair<int64_t, int64_t>, rt::Location> heldLocation;     ///< (call, index)
  std::map<int64_t, rt::Location> gradientLocation;                ///< edge, when input_grad ends
  std::map<int64_t, int32_t> outRegion, gradOutRegion, heldRegion; ///< per chunk
  std::map<std::pair<int64_t, bool>, int32_t> keptRegion;          ///< (chunk, until weight_grad)
  std::vector<std::vector<int64_t>> actionsOf;                     ///< positions, by micro-batch
  std::map<size_t, int32_t> receiveRegion;                         ///< per message
  std::map<std::string, rt::Location> batchValues, results;
};

} // namespace omnibal::layout
#endif // PASSES_LAYOUT_STAGELAYOUT_H
