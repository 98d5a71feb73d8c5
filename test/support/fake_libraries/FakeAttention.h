//===- FakeAttention.h - What the fake of libomnibal_cudnn.so was asked -----------------------===//
#ifndef TEST_SUPPORT_FAKE_LIBRARIES_FAKEATTENTION_H
#define TEST_SUPPORT_FAKE_LIBRARIES_FAKEATTENTION_H

#include "runtime/backends/cuda/libraries/AttentionForm.h"
#include <string>
#include <vector>

namespace omnibal::fake {

/// As cuDNN, the fake computes from offsets and lengths, writes the samples' rows only, leaves its
/// workspace full of NaN, and does not look at the rows between samples.
struct Attention {
  // Set by a test.
  bool refuses = false;       ///< has a kernel for nothing
  bool refusesToOpen = false; ///< as on a device that is too old
  int64_t workspace = 4096;   ///< bytes that a plan wants

  // Kept for a test.
  std::vector<rt::cuda::AttentionForm> plans;
  int runs = 0, backwardRuns = 0;
  std::vector<std::string>
      mistakes; ///< that the real one would answer with a fault or wrong numbers
};

} // namespace omnibal::fake

/// The state of the one loaded fake.
extern "C" omnibal::fake::Attention *fakeAttention();

#endif // TEST_SUPPORT_FAKE_LIBRARIES_FAKEATTENTION_H
