//===- OpTable.cpp - ONNX operators and who builds them ----------------------------------===//
#include "importers/onnx/OpTable.h"

using namespace mlir;

namespace omnibal::onnx {

namespace {
using Table = llvm::StringMap<llvm::SmallVector<const OpEntry *, 2>>;

Table makeTable() {
  Table table;
  for (llvm::ArrayRef<OpEntry> theme :
       {attentionOps(), constantOps(), controlOps(), einsumOps(), elementwiseOps(), indexingOps(),
        layoutOps(), linearAttentionOps(), lossOps(), neuralOps(), poolingOps(), reductionOps(),
        resizeOps(), sequenceOps()})
    for (const OpEntry &entry : theme)
      table[entry.name].push_back(&entry);
  return table;
}
} // namespace

const OpEntry *findOp(llvm::StringRef name, int64_t opset, bool &known) {
  static const Table table = makeTable();
  auto entries = table.find(name);
  known = entries != table.end();
  if (!known)
    return nullptr;
  for (const OpEntry *entry : entries->second)
    if (opset >= entry->minOpset && opset <= entry->maxOpset)
      return entry;
  return nullptr;
}

} // namespace omnibal::onnx
