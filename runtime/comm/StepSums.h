//===- StepSums.h - What ranks tell each other at the end of a step --------------------------===//
//
// Every rank has sums of a step: its loss, its gradients' squared norm, its routers' balancing loss
// and, where samples are pairs of answers, their rewards and how many were preferred rightly. All
// ranks get all of them through a sum of float32 values: a double travels as four numbers of 16
// bits in its rank's slot, and the other ranks add zeros there, so it arrives with its bits. This
// is plain code for hosts and devices.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_COMM_STEPSUMS_H
#define RUNTIME_COMM_STEPSUMS_H

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define OMNIBAL_EVERYWHERE __host__ __device__
#else
#define OMNIBAL_EVERYWHERE
#endif

namespace omnibal::rt {

struct StepSums {
  double loss = 0, squaredNorm = 0;
  double routerLoss = 0;                                      ///< of all micro-batches
  double chosenReward = 0, rejectedReward = 0, preferred = 0; ///< of all pairs
};

constexpr int slotFloats = 24; ///< of one rank
constexpr int lossKinds = 5;   ///< LossKind (runtime/device/Backend.h)

/// `losses`: the sums by their kind.
OMNIBAL_EVERYWHERE inline StepSums sumsOf(const double *losses, double squaredNorm) {
  return {losses[0], squaredNorm, losses[1], losses[2], losses[3], losses[4]};
}

OMNIBAL_EVERYWHERE inline void encodeDouble(double value, float *out) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  for (int i = 0; i < 4; ++i)
    out[i] = static_cast<float>(static_cast<uint32_t>(bits >> 16 * i & 0xffff));
}
OMNIBAL_EVERYWHERE inline double decodeDouble(const float *in) {
  uint64_t bits = 0;
  for (int i = 0; i < 4; ++i)
    bits |= static_cast<uint64_t>(static_cast<uint32_t>(in[i])) << 16 * i;
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

OMNIBAL_EVERYWHERE inline void encodeSums(const StepSums &sums, float *slot) {
  encodeDouble(sums.loss, slot);
  encodeDouble(sums.squaredNorm, slot + 4);
  encodeDouble(sums.routerLoss, slot + 8);
  encodeDouble(sums.chosenReward, slot + 12);
  encodeDouble(sums.rejectedReward, slot + 16);
  encodeDouble(sums.preferred, slot + 20);
}
OMNIBAL_EVERYWHERE inline StepSums decodeSums(const float *slot) {
  return {decodeDouble(slot),      decodeDouble(slot + 4),  decodeDouble(slot + 8),
          decodeDouble(slot + 12), decodeDouble(slot + 16), decodeDouble(slot + 20)};
}

/// Returns the sums over the ranks, in their order.
OMNIBAL_EVERYWHERE inline StepSums totalOf(const float *slots, int ranks) {
  StepSums total;
  for (int r = 0; r < ranks; ++r) {
    const StepSums sums = decodeSums(slots + r * slotFloats);
    total.loss += sums.loss;
    total.squaredNorm += sums.squaredNorm;
    total.routerLoss += sums.routerLoss;
    total.chosenReward += sums.chosenReward;
    total.rejectedReward += sums.rejectedReward;
    total.preferred += sums.preferred;
  }
  return total;
}

/// Returns what an update multiplies the sums of gradients by, as PyTorch's clip_grad_norm_ does
/// after the division by the number of labels. It is not a number if a sum is none, so that nothing
/// is updated. clip <= 0: off.
OMNIBAL_EVERYWHERE inline float updateScale(const StepSums &total, double labels, double clip) {
  constexpr double clipEpsilon = 1e-6; // keeps the factor finite where the norm is 0
  const double undefined =             // 0 for finite sums
      total.loss * 0 + total.squaredNorm * 0 + total.routerLoss * 0;
  if (!(undefined == 0))
    return static_cast<float>(NAN);
  if (!(labels > 0))
    return 0;
  double scale = 1.0 / labels;
  if (clip > 0) {
    const double factor = clip / (sqrt(total.squaredNorm) / labels + clipEpsilon);
    scale *= factor < 1.0 ? factor : 1.0;
  }
  return static_cast<float>(scale);
}

} // namespace omnibal::rt
#endif // RUNTIME_COMM_STEPSUMS_H
