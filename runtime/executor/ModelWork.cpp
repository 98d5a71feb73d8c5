#include "runtime/executor/ModelWork.h"
#include "runtime/device/PartMove.h"
#include "runtime/program/Sizes.h"
#include <algorithm>
#include <map>
#include <string_view>

namespace omnibal::rt {
namespace {

/// Where the gradients of losses begin that forward has computed: of pairs, and of words that parts
/// share, which count their logits there.
constexpr std::string_view preferenceGradient = "preference_loss_backward",
                           wordStatistics = "word_statistics",
                           joinedGradient = "joined_cross_entropy_backward";

const View *find(const KernelCall &call, std::string_view name) {
  for (const auto &[operand, view] : call.operands)
    if (operand == name)
      return &view;
  return nullptr;
}

bool isHeavy(const KernelCall &call) {
  return call.kernel == "gemm" || call.kernel == "quantized_gemm" ||
         call.kernel.starts_with("grouped_gemm") || call.kernel.starts_with("attention") ||
         call.kernel == "row_squares" || call.kernel.starts_with("cross_attention") ||
         call.kernel.starts_with("gated_delta") || call.kernel == "linear_cross_entropy" ||
         call.kernel == wordStatistics || call.kernel == joinedGradient ||
         call.kernel.starts_with("conv");
}

/// True if an operand of this name (docs/kernels.md) is written.
bool isWritten(std::string_view operand) {
  return operand == "c" || operand == "pre" || operand == "lse" || operand == "loss" ||
         operand == "result" || operand == "prediction" || operand.starts_with("out") ||
         (operand.starts_with("d") && operand != "dout" && operand != "decay");
}

/// The calls that count: in a function that takes gradients those that follow from them; what else
/// it computes, a forward has computed before.
std::vector<const KernelCall *> callsOf(const Function &function) {
  std::vector<char> follows(function.buffers.size(), 0);
  bool backward = false, loss = false;
  for (size_t b = 0; b < function.buffers.size(); ++b) {
    Role role = function.buffers[b].role;
    follows[b] = role == Role::GradOutput || role == Role::Held;
    backward |= follows[b] || role == Role::GradInput || role == Role::ParameterGrad;
  }
  // The head's loss is computed in its backward alone, but for one of pairs that forward has kept.
  for (const KernelCall &call : function.calls)
    loss |= call.kernel.ends_with("cross_entropy") && !call.kernel.starts_with("joined") &&
            !find(call, "row_weights");
  std::vector<const KernelCall *> list;
  for (const KernelCall &call : function.calls) {
    bool fromGradients = call.kernel == preferenceGradient || call.kernel == joinedGradient;
    for (const auto &[name, view] : call.operands)
      fromGradients |= !isWritten(name) && follows[view.buffer];
    for (const auto &[name, view] : call.operands)
      if (fromGradients && isWritten(name))
        follows[view.buffer] = 1;
    if (isHeavy(call) && (!backward || loss || fromGradients))
      list.push_back(&call);
  }
  return list;
}

/// A micro-batch as a part of a stage has it.
struct OwnMicrobatch {
  const PackedMicrobatch &whole;
  SymbolValues symbols;

  /// Of all labels as many as of all rows.
  double labelsOf(const View *rows) const {
    const double all = static_cast<double>(whole.labelTokens);
    const bool isShare = rows && !rows->shape.empty() && rows->shape.front().isOwn();
    return isShare && whole.tokens > 0
               ? all * static_cast<double>(symbols.ownTokens) / static_cast<double>(whole.tokens)
               : all;
  }
};

double evaluate(const Extent &e, const OwnMicrobatch &batch) {
  return static_cast<double>(e.evaluate(batch.symbols));
}

double elements(const View &view, const OwnMicrobatch &batch) {
  double count = 1;
  for (const Extent &e : view.shape)
    count *= evaluate(e, batch);
  return count;
}

/// Pairs of tokens of a segment of which the later sees the earlier or both see each other.
double pairsOf(double length, const nlohmann::json &attributes) {
  const std::string mask = attributes.value("mask", std::string("full"));
  if (mask == "full")
    return length * length;
  double window = length;
  if (const int64_t given = attributes.value("window", int64_t{0}); given > 0)
    window = std::min(length, static_cast<double>(given));
  return window * (window + 1) / 2 + (length - window) * window;
}

/// Pairs within the pieces between these borders.
template <typename Integer>
double pairsWithin(std::span<const Integer> borders, const nlohmann::json &attributes) {
  double pairs = 0;
  for (size_t i = 1; i < borders.size(); ++i)
    pairs += pairsOf(static_cast<double>(borders[i] - borders[i - 1]), attributes);
  return pairs;
}

double attention(const Function &function, const KernelCall &call, const OwnMicrobatch &batch) {
  const View *q = find(call, "q"), *v = find(call, "v");
  if (!q || !v || q->shape.size() != 3 || v->shape.size() != 3)
    return 0;
  double pairs = 0;
  if (const int64_t rows = call.attributes.value("segment_rows", int64_t{0}); rows > 0) {
    const double length = static_cast<double>(rows);
    pairs = evaluate(q->shape[0], batch) / length * pairsOf(length, call.attributes);
  } else {
    const View *of = find(call, "cu_seqlens");
    const Borders kind = of ? bordersNamed(function.buffers[of->buffer].name) : Borders::Samples;
    pairs = kind == Borders::Samples
                ? pairsWithin(std::span<const int64_t>(batch.whole.borders), call.attributes)
                : pairsWithin(pictureBorders(batch.whole, kind), call.attributes);
  }
  const double forward = 2 * pairs * evaluate(q->shape[1], batch) *
                         (evaluate(q->shape[2], batch) + evaluate(v->shape[2], batch));
  return call.kernel == "attention_backward" ? 2 * forward : forward;
}

/// Tokens times the rows of the pictures that each sees.
double crossAttention(const KernelCall &call, const OwnMicrobatch &batch) {
  const View *q = find(call, "q"), *v = find(call, "v");
  auto begins = batch.whole.tokenInputs.find("image_begins"),
       ends = batch.whole.tokenInputs.find("image_ends");
  if (!q || !v || q->shape.size() != 3 || v->shape.size() != 3 ||
      begins == batch.whole.tokenInputs.end() || ends == batch.whole.tokenInputs.end())
    return 0;
  double pictures = 0;
  for (size_t t = 0; t < begins->second.size(); ++t)
    pictures += ends->second[t] - begins->second[t];
  const double forward = 2 * pictures * call.attributes.value("rows", 1.0) *
                         evaluate(q->shape[1], batch) *
                         (evaluate(q->shape[2], batch) + evaluate(v->shape[2], batch));
  return call.kernel == "cross_attention_backward" ? 2 * forward : forward;
}

/// For every token of a head the products of its state [D, Dv] with the key, with the key's update
/// and with the query.
double gatedDelta(const KernelCall &call, const OwnMicrobatch &batch) {
  const View *q = find(call, "q"), *v = find(call, "v");
  if (!q || !v || v->shape.empty())
    return 0;
  const double forward = 3 * 2 * elements(*q, batch) * evaluate(v->shape.back(), batch);
  return call.kernel == "gated_delta_backward" ? 2 * forward : forward;
}

/// Every element of `over` meets a column of `columns`.
double product(const View *over, const View *columns, const OwnMicrobatch &batch) {
  return over && columns && !columns->shape.empty()
             ? 2 * elements(*over, batch) * evaluate(columns->shape.back(), batch)
             : 0;
}

double workOf(const Function &function, const KernelCall &call, const OwnMicrobatch &batch) {
  if (call.kernel.starts_with("attention"))
    return attention(function, call, batch);
  if (call.kernel.starts_with("cross_attention"))
    return crossAttention(call, batch);
  if (call.kernel.starts_with("gated_delta"))
    return gatedDelta(call, batch);
  if (call.kernel == "gemm" || call.kernel == "quantized_gemm" || call.kernel == "grouped_gemm")
    return product(find(call, "c"), find(call, "a"), batch);
  if (call.kernel == "row_squares")
    return product(find(call, "b"), find(call, "a"), batch);
  if (call.kernel == "grouped_gemm_backward")
    return product(find(call, "a"), find(call, "b"), batch);
  if (call.kernel == "linear_cross_entropy") {
    const View *weight = find(call, "weight");
    // With weights of rows, the loss is known already.
    const double products = (find(call, "row_weights") == nullptr) +
                            (find(call, "dhidden") != nullptr) + (find(call, "dweight") != nullptr);
    return weight ? 2 * products * batch.labelsOf(find(call, "hidden")) * elements(*weight, batch)
                  : 0;
  }
  if (call.kernel == wordStatistics || call.kernel == joinedGradient) {
    const View *weight = find(call, "weight");
    const double products = (call.kernel == wordStatistics) + (find(call, "dhidden") != nullptr) +
                            (find(call, "dweight") != nullptr);
    return weight ? 2 * products * batch.labelsOf(find(call, "hidden")) * elements(*weight, batch)
                  : 0;
  }
  // Convolutions: every output (of a gradient, every incoming one) meets a filter's weights.
  const View *result = find(call, "result");
  const View *weight = find(call, "weight") ? find(call, "weight") : result;
  const View *out = find(call, "grad") ? find(call, "grad") : result;
  if (!weight || !out || weight->shape.empty())
    return 0;
  const double filters = evaluate(weight->shape.front(), batch);
  return filters > 0 ? 2 * elements(*out, batch) * elements(*weight, batch) / filters : 0;
}

} // namespace

ModelWork::ModelWork(const Program &program, const Stage *own, int32_t parts)
    : part(own ? own->part % parts : 0), parts(own ? parts : 1) {
  for (const Function &function : program.functions)
    counted.push_back({&function, callsOf(function)});
  if (part > 0)
    leaveOutAlike(program, *own);
}

/// What follows from nothing that parts have shares of is done alike by all of them.
void ModelWork::leaveOutAlike(const Program &program, const Stage &part) {
  for (const auto &[name, mode] : part.modes)
    for (const Chunk &chunk : mode.chunks) {
      if (program.partsOf(name) != parts)
        continue;
      Places divided; // what forward saves of shares
      for (ActionKind kind : computeKinds)
        for (const LayerCall &call : chunk.calls(kind))
          leaveOutAlike(program, part, call, divided);
    }
}

void ModelWork::leaveOutAlike(const Program &program, const Stage &part, const LayerCall &call,
                              Places &divided) {
  const Function &function = program.functions[call.function];
  auto placeOf = [&](int32_t formal) {
    const Location &l = call.bindings[formal];
    return std::tuple{l.space, l.index, l.offset.constant};
  };
  std::vector<char> isDivided(function.buffers.size(), 0);
  for (size_t b = 0; b < function.buffers.size(); ++b) // rows of its own
    isDivided[b] = isOwn(function.buffers[b].shape);
  for (int32_t f = 0; f < function.formals; ++f) {
    const Role role = function.buffers[f].role;
    if (role == Role::Parameter)
      isDivided[f] = part.parameters[call.bindings[f].index].held.has_value();
    else if (role == Role::Saved || role == Role::Held)
      isDivided[f] |= divided.count(placeOf(f)) != 0;
  }
  std::vector<const KernelCall *> &list = counted[call.function].calls;
  for (const KernelCall &each : function.calls) {
    bool ofShares = false;
    for (const auto &[name, view] : each.operands)
      ofShares |= !isWritten(name) && isDivided[view.buffer];
    if (PartMove::isKernel(each.kernel))
      ofShares = each.kernel != "all_reduce" && each.kernel != "all_gather";
    for (const auto &[name, view] : each.operands)
      if (isWritten(name))
        isDivided[view.buffer] = ofShares;
    if (!ofShares)
      list.erase(std::remove(list.begin(), list.end(), &each), list.end());
  }
  for (int32_t f = 0; f < function.formals; ++f)
    if (isDivided[f] &&
        (function.buffers[f].role == Role::Saved || function.buffers[f].role == Role::Held))
      divided.insert(placeOf(f));
}

double ModelWork::of(int32_t function, const PackedMicrobatch &batch) const {
  const OwnMicrobatch own{batch, SymbolValues::of(batch.tiles, batch.tokens, part, parts)};
  double sum = 0;
  for (const KernelCall *call : counted[function].calls)
    sum += workOf(*counted[function].function, *call, own);
  return sum;
}

double ModelWork::of(const FunctionCalls &calls, const PackedMicrobatch &batch) const {
  double sum = 0;
  for (const auto &[function, count] : calls)
    sum += static_cast<double>(count) * of(function, batch);
  return sum;
}

std::vector<FunctionCalls> callsOfMicrobatches(const Mode &mode) {
  std::vector<FunctionCalls> result(mode.microbatches);
  for (const Action &a : mode.actions)
    if (isCompute(a.kind))
      for (const LayerCall &call : mode.chunks[a.index].calls(a.kind))
        ++result[a.microbatch][call.function];
  return result;
}

} // namespace omnibal::rt
