//===- AssignBuffers.cpp - Offsets of temporaries from their lifetimes -------------------===//
#include "passes/lower/calls/CallList.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace omnibal::lower {
namespace {

constexpr int64_t alignment = 64;

struct Temporary {
  int root = -1;
  int first = -1, last = -1; ///< calls that touch it
  int64_t bytes = 0, offset = 0;
};

/// Bytes at the caps. The dimension that grows with V or N is rounded up to the bucket, so that a
/// kernel may round its rows up too.
int64_t bytesOf(const Root &root, const LoweringOptions &options) {
  int64_t elements = 1;
  for (const SymbolicDim &dim : root.shape) {
    int64_t size = dim.evaluate(options.tilesCap, options.tokensCap);
    elements *=
        dim.isStatic() ? size : static_cast<int64_t>(llvm::alignTo(size, options.rowBucket));
  }
  return elements * rt::byteSize(root.dtype);
}

/// Largest first, each at the lowest offset that is free while it lives.
int64_t assignOffsets(std::vector<Temporary> &temporaries) {
  std::vector<Temporary *> order;
  for (Temporary &temporary : temporaries)
    order.push_back(&temporary);
  llvm::stable_sort(order,
                    [](const Temporary *a, const Temporary *b) { return a->bytes > b->bytes; });
  std::vector<const Temporary *> placed;
  int64_t total = 0;
  for (Temporary *temporary : order) {
    int64_t offset = 0;
    for (const Temporary *other : placed) { // ascending offsets
      bool together = temporary->first <= other->last && other->first <= temporary->last;
      if (!together)
        continue;
      if (other->offset >= offset + temporary->bytes)
        break;
      offset = std::max(
          offset, static_cast<int64_t>(llvm::alignTo(other->offset + other->bytes, alignment)));
    }
    temporary->offset = offset;
    total = std::max(total, offset + temporary->bytes);
    auto after = llvm::upper_bound(placed, temporary, [](const Temporary *a, const Temporary *b) {
      return a->offset < b->offset;
    });
    placed.insert(after, temporary);
  }
  return static_cast<int64_t>(llvm::alignTo(total, alignment));
}

rt::View toView(const Place &place, llvm::ArrayRef<int> bufferOf) {
  rt::View view;
  view.buffer = bufferOf[place.root];
  view.offset = toExtent(place.offset);
  for (const SymbolicDim &dim : place.shape)
    view.shape.push_back(toExtent(dim));
  for (const SymbolicDim &stride : place.strides)
    view.strides.push_back(toExtent(stride));
  return view;
}

} // namespace

nlohmann::json toJson(const SymbolicDim &dim) {
  if (dim.isStatic())
    return dim.constant;
  return nlohmann::json::array({dim.constant, dim.perTile, dim.perToken});
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
      buffer.shape.push_back(toExtent(dim));
    bufferOf[root] = function.buffers.size();
    function.buffers.push_back(std::move(buffer));
  };
  for (const FormalRoot &formal : list.formals) {
    addBuffer(formal.root, formal.formal.name, formal.formal.role, 0);
    result.formals.push_back(formal.formal);
  }

  std::vector<Temporary> temporaries;
  std::vector<int> temporaryOf(list.roots.size(), -1);
  for (auto [index, call] : llvm::enumerate(list.calls))
    for (const auto &[name, place] : call.operands) {
      if (bufferOf[place.root] >= 0)
        continue;
      int &number = temporaryOf[place.root];
      if (number < 0) {
        number = temporaries.size();
        Temporary temporary;
        temporary.root = place.root;
        temporary.first = index;
        temporary.bytes = bytesOf(list.roots[place.root], options);
        temporaries.push_back(temporary);
      }
      temporaries[number].last = index;
    }
  function.workspaceBytes = assignOffsets(temporaries);
  for (auto [number, temporary] : llvm::enumerate(temporaries))
    addBuffer(temporary.root, "t" + std::to_string(number), rt::Role::Temporary, temporary.offset);

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
