#include "runtime/training/checkpoints/RunResults.h"
#include "runtime/checkpoint/SharedTensorFile.h"
#include "runtime/training/checkpoints/RunCheckpoints.h"
#include "runtime/training/checkpoints/RunIdentity.h"
#include "runtime/training/checkpoints/SaveTrained.h"
#include <cstring>

namespace omnibal::rt {

Status saveGradients(Session &s, double count) {
  std::vector<TensorHeader> layout;
  for (const Parameter *q : trainedParameters(s.program()))
    layout.push_back({q->name, StoredType::F32, q->shape});
  OMNIBAL_RETURN_IF_ERROR(s.executor->gatherGradients());
  // Copies: the sums themselves stay as they are for the update.
  std::vector<std::vector<float>> copies;
  std::vector<NamedTensor> mine;
  double factor = count > 0 ? 1.0 / count : 0;
  for (const Parameter &q : s.executor->stageInfo().parameters) {
    if (!q.trainable || !s.executor->counts(q) || !s.executor->readsWeights())
      continue;
    auto &copy = copies.emplace_back(q.elements());
    OMNIBAL_RETURN_IF_ERROR(s.executor->backend().read(
        s.executor->at(q.gradOffset), q.elements() * int64_t{sizeof(float)},
        [&](const std::byte *sums) {
          // A part may hold nothing of a parameter; memcpy wants an address all the same.
          if (!copy.empty())
            std::memcpy(copy.data(), sums, copy.size() * sizeof(float));
          return Status::ok();
        }));
    for (float &value : copy)
      value = static_cast<float>(value * factor);
    mine.push_back({q.name, q.shape, copy.data(), q.transposed});
    mine.back().held = q.held;
  }
  return writeSharedTensorFile({s.options.saveGradients, layout}, mine, s.leads(), s.agree);
}

Result<std::vector<std::string>> saveWeights(Session &s, const std::string &folder) {
  ParameterShapes shapes;
  for (const Parameter *q : trainedParameters(s.program()))
    shapes[q->name] = q->shape;
  std::vector<std::string> notices;
  OMNIBAL_RETURN_IF_ERROR(s.executor->bringWeights());
  OMNIBAL_RETURN_IF_ERROR(saveTrained(s.options, folder,
                                      {s.program().adapters, std::move(shapes), trainedTensors(s)},
                                      s.weights, s.leads(), s.agree, notices));
  OMNIBAL_RETURN_IF_ERROR(s.executor->forgetWeights());
  return notices;
}

} // namespace omnibal::rt
