//===- OpCost.h - Work and traffic of one op ---------------------------------------------===//
#ifndef DIALECTS_OMNIBAL_IR_OPCOST_H
#define DIALECTS_OMNIBAL_IR_OPCOST_H

#include "dialects/omnibal/ir/SymbolicShape.h"

namespace omnibal {

/// FLOPs (a multiply-add is 2) and bytes moved, affine in V and N, plus the parts of packed
/// attention that grow with the sums of squared lengths of samples and of pictures.
struct OpCost {
  SymbolicDim flops;
  SymbolicDim bytes;
  int64_t flopsPerSquaredToken = 0; ///< times the sum over samples of length^2
  int64_t flopsPerSquaredTile = 0;  ///< times the sum over pictures of units^2
  bool isMatrixProduct = false;     ///< runs at the matrix peak, else bound by memory
};

} // namespace omnibal
#endif // DIALECTS_OMNIBAL_IR_OPCOST_H
