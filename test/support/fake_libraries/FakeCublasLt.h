//===- FakeCublasLt.h - What a test tells and asks the fake of cuBLASLt -----------------------===//
//
// A shared object of the library's name, with the few functions that the backend calls. It
// multiplies on the host, strictly by what the descriptors say, and notes what the real library
// would refuse or what would race: lines that overlap, misaligned operands, an algorithm offered
// for something else, too small a workspace.
//
//===-------------------------------------------------------------------------------------------===//
#ifndef TEST_SUPPORT_FAKE_LIBRARIES_FAKECUBLASLT_H
#define TEST_SUPPORT_FAKE_LIBRARIES_FAKECUBLASLT_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace omnibal::fake {

struct CublasLt {
  size_t version = 130100;
  int createError = 0;   ///< what cublasLtCreate returns
  int offered = 4;       ///< algorithms that the heuristics know; 0: they decline
  int multiplyError = 0; ///< what every product returns
  int quickest = 2;      ///< of the algorithms; the others take a second longer
  /// For products with a bit of these: the heuristics decline; they alone return multiplyError.
  uint32_t lackingEpilogues = 0, failingEpilogues = 0;
  int64_t products = 0;  ///< done so far
  std::vector<int> used; ///< which algorithm did each of them
  std::vector<uint32_t> epilogues;
  std::vector<int64_t> sizes; ///< m, n, k and batches of each
  std::vector<std::string> mistakes;
};

} // namespace omnibal::fake

/// The state of this library; by dlsym.
extern "C" omnibal::fake::CublasLt *fakeCublasLt();

#endif // TEST_SUPPORT_FAKE_LIBRARIES_FAKECUBLASLT_H
