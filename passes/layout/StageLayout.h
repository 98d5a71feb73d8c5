//===- StageLayout.h - Where everything of one stage lies in one mode --------------------===//
#ifndef PASSES_LAYOUT_STAGELAYOUT_H
#define PASSES_LAYOUT_STAGELAYOUT_H

#include "passes/common/OffsetAssignment.h"
#include "passes/layout/ModeLayout.h"
#include <set>

namespace omnibal::layout {

/// Builds one stage's rt::Mode: regions, chunks with their calls, offsets. Every region's lifetime
/// follows from the actions that use it, so a region is as small as the schedule allows. Types and
/// shapes of values are left open, and a call that adds up gradients has -1 - 2 * edge as its
/// function, one that copies -2 - 2 * edge.
///
/// Where steps are planned one by one, regions are as plans place them: one a layer and lifetime,
/// of one chunk each. What a chunk needs of another one on its stage is copied to where its
/// messages would arrive.
class StageLayout {
public:
  StageLayout(const MemoryGraph &graph, StageMode purpose, int64_t stage,
              const std::vector<schedule::Message> &messages, bool stepPlanned = false);

  /// Decides locations and bindings for the stage's action list; returns an error text.
  std::string build(std::vector<rt::Action> actions, int64_t microbatches);
  /// Gives every region its offset per micro-batch from `base` on; returns the bytes used.
  int64_t placeRegions(int64_t base);

  rt::Transfer sendSide(size_t message) const;
  rt::Transfer receiveSide(size_t message) const;
  int64_t messageBytes() const;
  rt::Mode &mode() { return theMode; }
  /// What plans of single steps place for a unit of each chunk of the stage.
  const std::map<int64_t, ChunkBlocks> &stepBlocks() const { return blocks; }

private:
  enum class RegionKind { Work, Kept, Message, Batch, Result };
  /// By what a region is used: a kind of computing action of a chunk in one of its variants.
  struct Touch {
    rt::ActionKind kind;
    int64_t chunk, variant;
    friend auto operator<=>(const Touch &, const Touch &) = default;
  };
  struct RegionUse {
    RegionKind kind;
    int64_t chunk = -1; ///< whose it is, where each has its own
    std::set<Touch> touched;
    std::vector<int32_t> sends, receives;     ///< messages
    std::optional<planner::BlockBegin> begin; ///< where it begins before the chunk's own actions
  };
  /// A list of layer calls under construction; transient buffers get offsets at its end.
  struct CallList {
    std::vector<rt::LayerCall> calls;
    std::vector<Block> blocks;
    rt::ActionKind kind;
    int64_t chunk;

    CallList(rt::ActionKind kind, int64_t chunk) : kind(kind), chunk(chunk) {}
  };

  int32_t addRegion(std::string name, RegionKind kind, int64_t chunk = -1);
  rt::Extent grow(int32_t region, int64_t bytes, const rt::Extent &stepBytes);
  const CalleeFunctions &functionsOf(int64_t call) const;
  int64_t functionOf(int64_t call, rt::ActionKind kind) const;
  bool readByBackward(int64_t call, rt::Role role, int64_t index) const;
  bool readByWeightGrad(int64_t call, rt::Role role, int64_t index) const;
  bool outputReadByWeightGrad(int64_t edge) const;
  rt::Location keep(int64_t call, bool untilWeightGrad, const FormalMemory &value);
  rt::Location hold(int64_t call, int64_t bytes, const rt::Extent &stepBytes);
  /// The owner of what is kept, and its name: a layer where steps are planned, else a chunk.
  std::pair<int64_t, std::string> ownerOf(int64_t call) const;

  std::string buildChunk(int64_t chunk);
  void forgetValues(int64_t chunk);
  void placeReceives(int64_t chunk);
  void placeArrivals(int64_t chunk);
  void placeSends(int64_t chunk);
  std::string buildForward(rt::Chunk &chunk);
  std::string buildBackward(rt::Chunk &chunk, rt::ActionKind kind, std::vector<rt::LayerCall> &out);
  std::string buildWeightGrad(rt::Chunk &chunk);
  bool isRun(int64_t chunk, rt::ActionKind kind) const;
  std::string keptLocation(int64_t call, const FormalMemory &formal, rt::Location &out) const;
  rt::Location gradInputLocation(CallList &list, int64_t edge, const FormalMemory &formal);
  rt::Location transient(CallList &list, int64_t bytes);
  std::string bind(CallList &list, int64_t call, int64_t function,
                   const std::map<std::pair<rt::Role, int64_t>, rt::Location> &special);
  void finish(CallList &list, std::vector<rt::LayerCall> &out);
  void touch(const rt::Location &location, const CallList &list);
  void addAccumulate(CallList &list, int64_t edge, rt::Location from, rt::Location into);
  void addCopy(CallList &list, int64_t edge, rt::Location from, rt::Location to);
  void addHelper(CallList &list, int64_t edge, int32_t function, rt::Location from,
                 rt::Location to);
  rt::Location batchLocation(int64_t call, const FormalMemory &formal);
  rt::Location resultLocation(int64_t chunk, const std::string &name, const FormalMemory &formal);
  void describeBlocks();
  planner::Block blockOf(const rt::Region &region, const RegionUse &use, int64_t variant) const;
  int64_t placeStepMemory(int64_t base);
  int64_t stepMessageBytes() const;
  std::string forwardLocation(int64_t edge, int64_t chunk, rt::Location &out) const;
  int64_t plannedVariant(int64_t chunk) const;
  std::pair<int64_t, int64_t> lifetime(int32_t region, int64_t microbatch) const;

  const MemoryGraph &graph;
  StageMode purpose;
  int64_t stage;
  const std::vector<schedule::Message> &messages;
  bool stepPlanned;
  rt::Mode theMode;
  std::vector<RegionUse> uses; ///< parallel to theMode.regions
  int32_t workRegion = -1;
  int64_t variant = 0;                           ///< of the chunk whose lists are being built
  std::map<int64_t, rt::Location> valueLocation; ///< edge made here
  std::map<std::pair<int64_t, int64_t>, rt::Location> receivedLocation; ///< (edge, chunk)
  std::map<std::pair<int64_t, int64_t>, rt::Location> gradOutLocation;  ///< (edge, chunk)
  std::map<std::pair<int64_t, int64_t>, rt::Location> gradInLocation;   ///< (edge, from chunk)
  std::map<std::pair<int64_t, int64_t>, rt::Location> savedLocation;    ///< (call, index)
  std::map<std::pair<int64_t, int64_t>, rt::Location> heldLocation;     ///< (call, index)
  std::map<int64_t, rt::Location> gradientLocation;       ///< edge, when input_grad ends
  std::map<int64_t, int32_t> outRegion, gradOutRegion;    ///< per chunk
  std::map<int64_t, int32_t> heldRegion;                  ///< by owner, of this variant
  std::map<std::pair<int64_t, bool>, int32_t> keptRegion; ///< (owner, until weight_grad), likewise
  std::vector<std::vector<int64_t>> actionsOf;            ///< positions, by micro-batch
  std::map<size_t, int32_t> receiveRegion;                ///< per message
  std::map<std::pair<int64_t, std::string>, rt::Location> batchValues; ///< by owner and name
  std::map<std::string, rt::Location> results;
  std::map<int64_t, ChunkBlocks> blocks; ///< by chunk
};

} // namespace omnibal::layout
#endif // PASSES_LAYOUT_STAGELAYOUT_H
