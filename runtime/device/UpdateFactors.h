//===- UpdateFactors.h - A rule's constants of one step ---------------------------------------===//
//
// Without functions, as code that is compiled for several instruction sets includes it:
// UpdateConstants.h fills it.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef RUNTIME_DEVICE_UPDATEFACTORS_H
#define RUNTIME_DEVICE_UPDATEFACTORS_H

namespace omnibal::rt {

/// In the form in which the inner loop uses them.
struct UpdateFactors {
  float gradientScale;
  float keep1, take1, keep2, take2; ///< of the moments: beta or momentum, and 1 - beta
  float shrink;                     ///< 1 - lr * decay
  float decay;                      ///< what is added to the gradient (SGD)
  float stepSize;                   ///< lr / bias correction 1
  float rootScale, epsilon;         ///< 1 / sqrt(bias correction 2)
  bool nesterov, zeroGradients;
};

} // namespace omnibal::rt
#endif // RUNTIME_DEVICE_UPDATEFACTORS_H
