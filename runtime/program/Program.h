//===- Program.h - The compiled training program as plain data ---------------------------===//
//
// A program is the interface between compiler and runtime (docs/program.md). These are plain
// structs that do no more than evaluate sizes; the files next to this one read, write, verify and
// print them. Sizes and offsets are bytes unless a name says elements; strides are elements.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_PROGRAM_PROGRAM_H
#define RUNTIME_PROGRAM_PROGRAM_H

#include "runtime/device/NormBlocks.h"
#include "runtime/device/OptimizerKind.h"
#include "runtime/program/Adapters.h"
#include "runtime/program/PictureGrid.h"
#include "runtime/support/QuantizedMatrix.h"
#include "runtime/support/RankOrder.h"
#include "runtime/support/Shares.h"
#include "runtime/support/Types.h"
#include <compare>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace omnibal::rt {

/// What a formal buffer of a function is to its caller.
enum class Role {
  Input,         ///< activation entering the layer (read only)
  Output,        ///< activation leaving the layer
  Parameter,     ///< read only
  ParameterGrad, ///< accumulated into (+=), never overwritten
  Saved,         ///< written by forward, read by backward, held in between
  Held,          ///< written by input_grad, read by weight_grad, held in between
  GradOutput,    ///< gradient of an Output, read by backward
  GradInput,     ///< gradient of an Input, written (=) by backward
  Batch,         ///< a value of the micro-batch that the runtime provides (ids, positions, ...)
  Constant,      ///< read-only data of the program
  Result,        ///< per-token results of evaluation (loss, prediction)
  Temporary      ///< inside the function's workspace, at `offset`
};

struct Buffer {
  std::string name;
  Role role = Role::Temporary;
  DType dtype = DType::F32;
  std::vector<Extent> shape; ///< dense row-major
  int64_t offset = 0;        ///< Temporary only: bytes into the function's workspace
};

/// A strided window of one buffer; all in elements of the buffer's dtype. Stride 0 broadcasts.
struct View {
  int32_t buffer = -1; ///< index into Function::buffers
  Extent offset;
  std::vector<Extent> shape;
  std::vector<Extent> strides;
};

/// One step of a function: a library kernel or (kernel == "fused") a generated one.
/// Operands are named; docs/kernels.md lists names, shapes and attributes of each kernel.
struct KernelCall {
  std::string kernel;
  std::vector<std::pair<std::string, View>> operands;
  nlohmann::json attributes = nlohmann::json::object();
  std::string label; ///< where it comes from (ONNX node or op), for profiles and errors
};

/// The code of one layer for one purpose (forward, backward, ...); shared by all equal layers.
struct Function {
  std::string name;
  std::vector<Buffer> buffers; ///< formals first (in binding order), then temporaries
  int32_t formals = 0;
  int64_t workspaceBytes = 0; ///< at the caps
  std::vector<KernelCall> calls;
  /// A digest of what the function computes, whoever calls it and whatever its name: the key of
  /// measured times (docs/planner.md). It is empty for helpers.
  std::string digest;
};

/// Says where the actual argument of a formal lies: at address arena + base(space, index,
/// micro-batch) + offset, which depends on V and N in regions that every step places only.
enum class Space {
  Parameter, ///< index: Stage::parameters
  Gradient,  ///< index: Stage::parameters
  Constant,  ///< index: Stage::constants
  Region     ///< index: Mode::regions (base depends on the micro-batch)
};
struct Location {
  Space space = Space::Region;
  int32_t index = 0;
  Extent offset;
};

struct LayerCall {
  std::string layer;              ///< e.g. "vision.layers.3"
  int32_t function = 0;           ///< index into Program::functions
  std::vector<Location> bindings; ///< one per formal
  int32_t workspaceRegion = 0;    ///< region that holds the function's temporaries
  int64_t workspaceOffset = 0;
};

/// What the plan of a step places for each unit of a chunk: a block of the step problem
/// (runtime/planner/step/StepProblem.h).
struct StepBlock {
  int32_t chunk = 0;
  /// By variant of the chunk: its number among the variant's blocks; -1: the variant has no use for
  /// it.
  std::vector<int32_t> numbers;
  Extent bytes; ///< for N rounded up to the row bucket

  friend bool operator==(const StepBlock &, const StepBlock &) = default;
};

/// A family of allocations, one per micro-batch; two micro-batches may share an offset when their
/// lifetimes do not meet. offsets has one entry per micro-batch of the mode.
struct Region {
  std::string name;
  int64_t bytes = 0;              ///< at the caps
  std::vector<int64_t> offsets;   ///< into the arena, for the mode's own actions
  std::optional<StepBlock> block; ///< where plans of single steps place it elsewhere

  int64_t bytesAt(int64_t tiles, int64_t tokens) const {
    return block ? block->bytes.evaluate(tiles, tokens) : bytes;
  }
};

/// Names that belong to the balancing loss of routers: the result of the head, one number per
/// micro-batch; its factor in the sum of a step's losses; and a value that is 1 for tokens and 0
/// for rows that are none.
inline constexpr const char *routerLossResult = "router_loss",
                            *routerLossWeightValue = "router_loss_weight",
                            *realTokensValue = "real_tokens";

/// What random numbers are made from: numbers of tokens and of k rows of each tile
/// ("image_random_keys.k"), 0 where nothing is random; how many tokens a token's sample has, and
/// the number of the layer that reads it, whose value for layer 7 is called "layer_number.7".
inline constexpr const char *randomKeysValue = "random_keys",
                            *imageRandomKeysPrefix = "image_random_keys.",
                            *sampleTokensValue = "sample_tokens",
                            *layerNumberValue = "layer_number";
/// The name of the value that a layer reads as `name`.
std::string valueOfLayer(const std::string &name, int64_t layer);
/// The name in the layer of a value, and the number of its layer if it is one layer's own.
std::string nameInLayer(const std::string &value);
std::optional<int64_t> layerOfValue(const std::string &value);

/// Names that belong to the loss of pairs of answers: its results beside "loss", f32 [N], which are
/// 0 but at the first row of a pair; and the value [N] that has the log-probability of a sequence
/// by the model which training begins with at the first row of that.
inline constexpr const char *chosenRewardResult = "chosen_reward",
                            *rejectedRewardResult = "rejected_reward",
                            *preferredResult = "preferred", *referenceValue = "reference";

/// A value of the micro-batch that the runtime writes before the first action that reads it (at the
/// start of that action, for all of its layers).
/// Known names: input_ids, targets, positions, cu_seqlens, image_rows, pixel_values
/// (docs/program.md), those of PictureGrid programs, of the routers' loss, and the graph's further
/// per-token inputs.
struct BatchValue {
  std::string name;
  DType dtype = DType::I32;
  std::vector<Extent> shape;
  int32_t region = 0;
  int64_t offset = 0;
};

/// One tensor of a message.
struct Piece {
  std::string name;
  DType dtype = DType::F32;
  std::vector<Extent> shape;     ///< dense
  Extent sendOffset, recvOffset; ///< within the regions
};
/// Message from one chunk to another, for one direction; the same for every micro-batch.
struct Transfer {
  int32_t id = 0; ///< unique in the program; with the micro-batch number it makes the tag
  bool gradient = false;
  int32_t fromStage = 0, toStage = 0, fromChunk = 0, toChunk = 0;
  int32_t sendRegion = 0, recvRegion = 0; ///< regions of the sending / receiving stage's mode
  std::vector<Piece> pieces;
};

enum class ActionKind {
  Forward,
  Backward,
  InputGrad,
  WeightGrad,
  PostRecv,         ///< start receiving transfer `index`; does not block
  WaitRecv,         ///< block until that receive is complete
  Send,             ///< start sending transfer `index`; does not block
  WaitSend,         ///< block until the send buffer may be reused
  ReduceShared,     ///< sum gradients of shared group `index` over its stages, in stage order
  ReduceGradients,  ///< sum gradient bucket `index` over data-parallel ranks, in rank order
  ScatterGradients, ///< the same, but each rank gets its share of the bucket only
  ReduceScalars,    ///< loss, label count, squared norm over all ranks
  Update,           ///< the optimizer, with the clipping scale
  GatherParameters  ///< what kernels read of bucket `index`, from the ranks that updated it
};
constexpr bool reducesBucket(ActionKind kind) {
  return kind == ActionKind::ReduceGradients || kind == ActionKind::ScatterGradients;
}
/// Work on a chunk.
inline constexpr ActionKind computeKinds[] = {ActionKind::Forward, ActionKind::Backward,
                                              ActionKind::InputGrad, ActionKind::WeightGrad};
constexpr bool isCompute(ActionKind kind) { return kind <= ActionKind::WeightGrad; }

/// What an action on a chunk or a message is about: a micro-batch, or one of its sub-micro-batches
/// where the plan of a step divides it.
struct Unit {
  int32_t microbatch = 0, part = 0;

  friend auto operator<=>(const Unit &, const Unit &) = default;
};

struct Action {
  ActionKind kind = ActionKind::Forward;
  int32_t microbatch = 0;
  /// Position in Mode::chunks, in Mode::transfers or in Stage::buckets; ReduceShared: the number of
  /// the shared group.
  int32_t index = 0;
  int32_t part = 0; ///< of the micro-batch; the actions of programs are about whole ones

  Unit unit() const { return {microbatch, part}; }
};

/// Where plans of single steps choose what a chunk recomputes, a stage has it once for each way,
/// its variants. Of these a micro-batch runs one.
struct Chunk {
  int32_t id = 0;
  int32_t variant = 0; ///< of the chunk with this id; they are numbered from 0, in turn
  std::vector<std::string> layers;
  std::vector<LayerCall> forward, backward, inputGrad, weightGrad;

  /// Those of a computing action.
  const std::vector<LayerCall> &calls(ActionKind kind) const {
    return kind == ActionKind::Backward     ? backward
           : kind == ActionKind::InputGrad  ? inputGrad
           : kind == ActionKind::WeightGrad ? weightGrad
                                            : forward;
  }
};

/// What one stage does in one mode of the program ("train", "train.1", ..., "evaluate", "forward").
struct Mode {
  int32_t microbatches = 1;
  std::vector<Region> regions;
  std::vector<BatchValue> batchValues;
  std::vector<Chunk> chunks;
  std::vector<Transfer> transfers; ///< those this stage sends or receives
  std::vector<Action> actions;
  /// The results that this stage makes. In modes "train" and "evaluate" they are "loss" f32 [N],
  /// "prediction" i32 [N], "router_loss" f32 [] and those of pairs of answers; in mode "forward"
  /// they are graph outputs under their ONNX names.
  std::vector<BatchValue> results;
  /// The part of the arena in which plans of single steps place the regions that have a block; no
  /// bytes: every step runs `actions`.
  int64_t stepOffset = 0, stepBytes = 0;
};

struct Parameter {
  std::string name;           ///< in the source checkpoint
  DType dtype = DType::F32;   ///< of what kernels read: F32 or BF16; I32 words if it is quantized
  std::vector<int64_t> shape; ///< as in the checkpoint
  bool trainable = true;
  bool decay = true;       ///< at least two dimensions in the checkpoint
  bool counted = true;     ///< false on the second copy of a shared parameter
  bool transposed = false; ///< stored [in, out] in the arena although the checkpoint has [out, in]
  bool orthogonalized = false;   ///< a matrix whose update Muon orthogonalizes
  int32_t sharedGroup = -1;      ///< copies of one parameter on several stages, else -1
  std::optional<HeldUnits> held; ///< what a part of its stage has of it; none: all
  /// How a frozen matrix lies in the arena: as numbers, or as the words of its [out, in].
  Quantization quantization = Quantization::None;
  /// The shape of what is in the arena, in the checkpoint's order of dimensions.
  std::vector<int64_t> heldDims() const { return held ? heldShape(shape, *held) : shape; }
  /// In the arena.
  int64_t elements() const { return elementsOf(heldDims()); }
  /// What lies in the arena of a quantized matrix.
  QuantizedShape quantizedShape() const {
    return {quantization, shape[transposed ? 1 : 0], shape[transposed ? 0 : 1]};
  }
  /// Of what kernels read, in the arena.
  int64_t dataBytes() const {
    return quantization == Quantization::None ? elements() * byteSize(dtype)
                                              : quantizedShape().bytes();
  }
  /// In the checkpoint.
  int64_t wholeElements() const { return elementsOf(shape); }
  static int64_t elementsOf(const std::vector<int64_t> &dims) {
    int64_t count = 1;
    for (int64_t size : dims)
      count *= size;
    return count;
  }
  /// Offsets into the arena; -1 stands for none. A trainable parameter that kernels read in BF16
  /// has its float32 values, which the optimizer changes, at masterOffset. Where replicas divide
  /// them (Bucket::share), there are no moments and no float32 values here. An optimizer with one
  /// moment has no second one. The moving average (Program::averages) is float32, and the shares'
  /// too.
  int64_t dataOffset = -1, gradOffset = -1, moment1Offset = -1, moment2Offset = -1,
          masterOffset = -1, averageOffset = -1;
  /// The offset of all of a trainable parameter's float32 values. Where replicas divide those, it
  /// is the gradient's place: values are there only while they come or go, between two steps.
  int64_t weightOffset() const {
    return masterOffset >= 0 ? masterOffset : dtype == DType::F32 ? dataOffset : gradOffset;
  }
};

struct Constant {
  std::string name; ///< tensor in constants.safetensors
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  int64_t offset = 0; ///< into the arena
};

/// How replicas divide what the optimizer knows of a bucket (ZeRO-1). Its elements are those of its
/// gradients in the order of the arena, cut at multiples of normBlock. A replica has room for the
/// largest share and its own share's state at the beginning of that.
struct BucketShare {
  std::vector<int64_t> bounds; ///< replica r has the elements [bounds[r], bounds[r + 1])
  int64_t moment1Offset = -1, moment2Offset = -1;
  int64_t masterOffset = -1;  ///< of the float32 values, where kernels read BF16
  int64_t averageOffset = -1; ///< of the moving averages, where there are any
};

struct Bucket {
  std::vector<int32_t> parameters; ///< stage-local numbers
  std::optional<BucketShare> share;
};

struct Stage {
  int32_t id = 0;
  int32_t part = 0; ///< whose this is, where a stage has several entries (Program::entries)
  int64_t arenaBytes = 0;
  int64_t persistentBytes = 0; ///< parameters, gradients, moments, constants: [0, persistentBytes)
  int64_t reservedBytes = 0;   ///< messages, library workspaces, ... (part of arenaBytes)
  std::vector<Parameter> parameters;
  std::vector<Constant> constants;
  std::vector<Bucket> buckets;
  std::map<std::string, Mode> modes;
};

/// Facts about the model that the data loader needs.
struct ModelInfo {
  int64_t imageTokenId = -1; ///< -1: no image merge
  int64_t tokensPerTile = 0;
  std::vector<int64_t> tileShape; ///< pixel_values without its first dimension, e.g. [3, 448, 448]
  std::vector<std::string> tokenInputs;  ///< further per-token inputs by ONNX name (token_type_ids)
  std::vector<std::string> prefixInputs; ///< those of them that tell a prefix from what follows
  /// Tokens see others only through attention that looks back, so a later run over an answer's next
  /// token needs the keys and values of the earlier ones and nothing else of them.
  bool incremental = false;
  int64_t vocabulary = 0;
  int64_t positions = 0; ///< the most tokens of a sample, as a table of positions has rows; 0: any
  /// The factor with which the balancing loss of routers is added to the mean loss of a token; 0:
  /// there is none.
  double routerLossCoefficient = 0;
  /// Where the loss is that of pairs of answers (DPO), what rewards are multiplied by; else 0.
  double preferenceBeta = 0;
  bool learnsFromPairs() const { return preferenceBeta > 0; }
  /// The grid of a model of dynamic resolution: V counts its units, tileShape is the shape of a
  /// unit ([patches, values of a patch]), and tokensPerTile is 1.
  std::optional<PictureGrid> grid;
};

/// V and N of the largest micro-batch that memory is laid out for, and how many ranks of a stage
/// run one together.
struct MicrobatchCaps {
  int64_t tiles = 0, tokens = 0;
  int32_t parts = 1;

  friend bool operator==(const MicrobatchCaps &, const MicrobatchCaps &) = default;
};

/// A way to run training steps: that of the samples of one length group. All of a program's train
/// modes share cuts, parameters and buckets.
struct TrainMode {
  std::string name; ///< of the length group; may be empty where there is one mode
  int64_t tilesCap = 0, tokensCap = 0;
  /// Neighboring replicas that run a micro-batch together, as parts of their stage: its context
  /// group. It divides Program::dataParallel.
  int32_t degree = 1;
  int32_t microbatches = 1; ///< of a step
  std::string schedule;

  MicrobatchCaps caps() const { return {tilesCap, tokensCap, degree}; }
};

/// The key in Stage::modes of train mode `number`: "train", "train.1", "train.2", ...
std::string trainModeName(size_t number);
/// The number of the train mode with this key; none for the other modes' names.
std::optional<size_t> trainModeNumber(std::string_view name);

/// The most ranks that run a stage of a replica together.
inline constexpr int32_t mostParts = 65536;

struct Program {
  std::string target = "host";
  std::string compute = "float32"; ///< numbers of activations and products: float32 | bfloat16
  /// The CPU that generated code is for: x86-64-v3, or native (then the CPU's name); for a cuda
  /// program the oldest device.
  std::string cpu;
  std::string model;     ///< file name of the source model
  int32_t rowBucket = 1; ///< kernels run for N rounded up to a multiple of this; buffers hold that
  int32_t stages = 1, dataParallel = 1;
  int32_t modelParallel = 1; ///< ranks that run a stage of a replica together: its parts
  RankOrder rankOrder = RankOrder::Stage;
  int32_t zero = 0; ///< 1: replicas divide moments and float32 values (BucketShare)
  OptimizerKind optimizer = OptimizerKind::AdamW;
  bool averages = false; ///< a moving average of every value that trains is kept
  /// At least one; their caps ascend by tokens.
  std::vector<TrainMode> trainModes = std::vector<TrainMode>(1);
  ModelInfo info;
  Adapters adapters; ///< that train in place of the model's own weights
  std::vector<Function> functions;
  /// By stage; where the parts of a stage differ, or the ranks of its context groups, by stage and
  /// within it by part.
  std::vector<Stage> stageList;
  /// What plans of single steps are made from, as JSON (docs/step-plans.md); empty: there are none.
  std::string stepProblem;

  /// What a stage has in the list: an entry for each of its parts, for each rank of the largest
  /// context group, or one for all ranks, which then do the same.
  int32_t entries() const {
    return stages > 0 ? static_cast<int32_t>(stageList.size()) / stages : 1;
  }
  /// Whether each part of a stage has an entry of its own in the list; else all do the same.
  bool hasOwnParts() const { return modelParallel > 1 && entries() > 1; }
  /// `part`: of the stage, or of the largest context group.
  const Stage &stageOf(int stage, int part) const {
    return stageList[static_cast<size_t>(entries() > 1 ? stage * entries() + part : stage)];
  }
  /// Part 0 of each stage, which stands for all where they are alike.
  std::vector<const Stage *> firstParts() const {
    std::vector<const Stage *> list;
    for (int stage = 0; stage < stages; ++stage)
      list.push_back(&stageOf(stage, 0));
    return list;
  }

  /// How many replicas run a micro-batch of the mode with this key in Stage::modes together; of
  /// modes "evaluate" and "forward" as many as of the last train mode.
  int32_t degreeOf(std::string_view mode) const;
  int32_t largestDegree() const;
  /// Whether train modes are those of length groups, by name: there are several, or replicas run
  /// micro-batches together.
  bool hasLengthGroups() const { return trainModes.size() > 1 || largestDegree() > 1; }
  /// How many ranks of a stage run its micro-batches together: its parts, or a context group.
  int32_t partsOf(std::string_view mode) const { return modelParallel * degreeOf(mode); }
  /// Groups of replicas with micro-batches of their own.
  int32_t dataRanks(std::string_view mode) const { return dataParallel / degreeOf(mode); }

  /// The largest of the train modes: those of modes "evaluate" and "forward".
  MicrobatchCaps caps() const;
  /// Those of the mode with this key in Stage::modes.
  MicrobatchCaps capsOf(std::string_view mode) const;

  /// N for kernels: tokens beyond the micro-batch's own belong to no sample.
  int64_t roundedTokens(int64_t tokens) const {
    return (tokens + rowBucket - 1) / rowBucket * rowBucket;
  }
};

} // namespace omnibal::rt
#endif // RUNTIME_PROGRAM_PROGRAM_H
