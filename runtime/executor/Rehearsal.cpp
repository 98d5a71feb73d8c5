//===- Rehearsal.cpp - The computing actions of a stage alone, for measuring ------------------===//
#include "runtime/executor/ActionRun.h"
#include "runtime/executor/QuantizedLoad.h"
#include "runtime/executor/StepRehearsal.h"

namespace omnibal::rt {
namespace {

/// The numbers have both signs, and none is near zero: kernels meet no denormal numbers, which
/// would be slow. Their count is odd, so that rows differ.
std::vector<float> smallNumbers(float scale) {
  std::vector<float> numbers(4099);
  uint32_t state = 1;
  for (float &number : numbers) {
    state = state * 1664525u + 1013904223u;
    float size = 0.1f + static_cast<float>(state >> 16 & 0xff) / 128.0f;
    number = (state >> 31 ? size : -size) * scale;
  }
  return numbers;
}

} // namespace

Result<Rehearsal> Executor::rehearse(MicrobatchSource &source, const LayerClock &clock,
                                     size_t number) {
  const std::string name = trainModeName(number);
  auto found = impl->modes.find(name);
  if (found == impl->modes.end())
    return invalid("the program has no mode \"" + name + "\"");
  const PreparedMode &prepared = found->second;
  const Mode &mode = *prepared.mode;
  if (!impl->steps.empty())
    return Status(Code::Internal, "a rehearsal while a training step is under way");
  impl->startRun();
  // Nobody else computes now.
  device.functions.goAlone(true);
  struct Together {
    FunctionTable &functions;
    ~Together() { functions.goAlone(false); }
  } together{device.functions};
  device.backend->forgetEvents();
  ResultSink sink = [](int32_t, const BatchValue &, const std::byte *, const PackedMicrobatch &) {
    return Status::ok();
  };
  // Plans of steps choose among all kinds of actions.
  std::unique_ptr<StepRun> all = impl->stepRuns ? rehearsalOf(stageInfo()) : nullptr;
  const RunPlan &plan = all ? all->plan : prepared.plan;
  ActionRun run(loaded, prepared, plan, all ? all->completions : prepared.completions, *impl,
                device.functions, *device.pool, *device.backend, *device.transport,
                device.arena->data(), RankPlace{theReplica, theStage, thePart}, source, sink,
                nullptr, &clock);
  std::vector<float> activation = smallNumbers(1.0f), gradient = smallNumbers(1e-3f);
  Rehearsal result;
  for (const Action &a : plan.actions) {
    if (isCompute(a.kind)) {
      OMNIBAL_RETURN_IF_ERROR(run.compute(a));
      ++result.actions;
    } else if (a.kind == ActionKind::WaitRecv) {
      OMNIBAL_RETURN_IF_ERROR(
          run.pretendToReceive(a, mode.transfers[a.index].gradient ? gradient : activation));
    }
  }
  OMNIBAL_RETURN_IF_ERROR(run.settle());
  for (auto [begin, end] : impl->busy)
    result.total += device.backend->timeOf(end) - device.backend->timeOf(begin);
  return result;
}

Status Executor::initializeForRehearsal() {
  OMNIBAL_RETURN_IF_ERROR(connect());
  std::vector<float> numbers = smallNumbers(0.05f);
  for (const Parameter &q : stageInfo().parameters) {
    if (q.quantization != Quantization::None) {
      auto read = [&](int64_t first, std::span<float> values) {
        for (float &value : values)
          value = numbers[static_cast<size_t>(first++) % numbers.size()];
        return Status::ok();
      };
      OMNIBAL_RETURN_IF_ERROR(
          device.backend->write(at(q.dataOffset), q.dataBytes(), [&](std::byte *bytes) {
            return quantizeInto(q.quantizedShape(), read, bytes);
          }));
      continue;
    }
    bool inBFloat16 = !q.trainable && q.dtype == DType::BF16;
    auto fill = [&](std::byte *bytes) {
      for (int64_t i = 0; i < q.elements(); ++i)
        if (inBFloat16)
          reinterpret_cast<BFloat16 *>(bytes)[i] = BFloat16::fromFloat(numbers[i % numbers.size()]);
        else
          reinterpret_cast<float *>(bytes)[i] = numbers[i % numbers.size()];
      return Status::ok();
    };
    OMNIBAL_RETURN_IF_ERROR(device.backend->write(
        q.trainable ? at(q.weightOffset()) : at(q.dataOffset),
        q.elements() * byteSize(inBFloat16 ? DType::BF16 : DType::F32), fill));
  }
  OMNIBAL_RETURN_IF_ERROR(refreshCopies());
  OMNIBAL_RETURN_IF_ERROR(zeroState());
  return loadConstants();
}

} // namespace omnibal::rt
