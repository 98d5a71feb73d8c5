//===- AssignBuffers.cpp - Offsets of temporaries from their lifetimes -------------------===//
#include "passes/common/OffsetAssignment.h"
#include "passes/lower/calls/CallList.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace omnibal::lower {
namespace {

/// Bytes at the caps. The dimension that grows with V or N is rounded up to the bucket, so that a
/// kernel may round its rows up too.
int64_t bytesOf(const Root &root, const LoweringOptions &options) {
  int64_t elements = 1;
  for (const SymbolicDim &dim : root.shape) {
    const int64_t size = dim.evaluate(options.caps());
    elements *=
        dim.isStatic() ? size : static_cast<int64_t>(llvm::alignTo(size, options.rowBucket));
  }
  return elements * rt::byteSize(root.dtype);
}

rt::View toView(const Place &place, llvm::ArrayRef<int> bufferOf) {
  rt::View view;
  view.buffer = bufferOf[place.root];
  view.offset = place.offset;
  for (const SymbolicDim &dim : place.shape)
    view.shape.push_back(dim);
  for (const SymbolicDim &stride : place.strides)
    view.strides.push_back(stride);
  return view;
}

} // namespace

nlohmann::json toJson(const SymbolicDim &dim) {
  if (dim.isStatic())
    return dim.constant;
  return dim.writtenNumbers();
}

LoweredFunction assignBuffers(CallList list, const LoweringOptions &options) {
  LoweredFunction result;
  result.constants = std::move(list.constants);
  rt::Function &function = result.function;
  function.name = list.name;
  function.formals = list.formals.size();

  std::vector<int> bufferOf(list.roots.size(), -1);
  auto addBuffer = [&](int root, std::string name, rt::Role role, int64_t offset) {
    rt::Buffer buffer;
    buffer.name = std::move(name);
    buffer.role = role;
    buffer.dtype = list.roots[root].dtype;
    buffer.offset = offset;
    for (const SymbolicDim &dim : list.roots[root].shape)
      buffer.shape.push_back(dim);
    bufferOf[root] = function.buffers.size();
    function.buffers.push_back(std::move(buffer));
  };
  for (const FormalRoot &formal : list.formals) {
    addBuffer(formal.root, formal.formal.name, formal.formal.role, 0);
    result.formals.push_back(formal.formal);
  }

  std::vector<Block> temporaries; // live from the first call that touches them to the last
  std::vector<int> rootOf, temporaryOf(list.roots.size(), -1);
  for (auto [index, call] : llvm::enumerate(list.calls))
    for (const auto &[name, place] : call.operands) {
      if (bufferOf[place.root] >= 0)
        continue;
      int &number = temporaryOf[place.root];
      auto now = static_cast<int64_t>(index);
      if (number < 0) {
        number = static_cast<int>(temporaries.size());
        rootOf.push_back(place.root);
        temporaries.push_back({bytesOf(list.roots[place.root], options), now, now});
      }
      temporaries[number].last = now;
    }
  Placement placement = assignOffsets(temporaries);
  function.workspaceBytes = placement.bytes;
  for (auto [number, root] : llvm::enumerate(rootOf))
    addBuffer(root, "t" + std::to_string(number), rt::Role::Temporary, placement.offsets[number]);

  for (Call &call : list.calls) {
    rt::KernelCall out;
    out.kernel = std::move(call.kernel);
    out.attributes = std::move(call.attributes);
    out.label = std::move(call.label);
    for (auto &[name, place] : call.operands)
      out.operands.emplace_back(name, toView(place, bufferOf));
    function.calls.push_back(std::move(out));
  }
  return result;
}

} // namespace omnibal::lower
