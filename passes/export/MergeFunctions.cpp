#include "passes/export/MergeFunctions.h"
#include <algorithm>

namespace omnibal::exporter {
namespace {

bool isEqual(const rt::Buffer &a, const rt::Buffer &b) {
  return a.name == b.name && a.role == b.role && a.dtype == b.dtype && a.shape == b.shape &&
         a.offset == b.offset;
}

bool isEqual(const rt::View &a, const rt::View &b) {
  return a.buffer == b.buffer && a.offset == b.offset && a.shape == b.shape &&
         a.strides == b.strides;
}

bool isEqual(const rt::KernelCall &a, const rt::KernelCall &b) {
  auto sameOperand = [](const auto &x, const auto &y) {
    return x.first == y.first && isEqual(x.second, y.second);
  };
  return a.kernel == b.kernel && a.label == b.label && a.attributes == b.attributes &&
         std::equal(a.operands.begin(), a.operands.end(), b.operands.begin(), b.operands.end(),
                    sameOperand);
}

/// But for the name.
bool isEqual(const rt::Function &a, const rt::Function &b) {
  auto same = [](const auto &x, const auto &y) { return isEqual(x, y); };
  return a.digest == b.digest && a.formals == b.formals && a.workspaceBytes == b.workspaceBytes &&
         std::equal(a.buffers.begin(), a.buffers.end(), b.buffers.begin(), b.buffers.end(), same) &&
         std::equal(a.calls.begin(), a.calls.end(), b.calls.begin(), b.calls.end(), same);
}

} // namespace

std::vector<int32_t> FunctionList::add(std::vector<rt::Function> functions, size_t trainMode) {
  std::vector<int32_t> numbers;
  const auto earlier = static_cast<std::ptrdiff_t>(list.size());
  for (rt::Function &function : functions) {
    const auto end = list.begin() + earlier;
    auto known = std::find_if(list.begin(), end,
                              [&](const rt::Function &each) { return isEqual(each, function); });
    if (known != end) {
      numbers.push_back(static_cast<int32_t>(known - list.begin()));
      continue;
    }
    if (std::any_of(list.begin(), end,
                    [&](const rt::Function &each) { return each.name == function.name; }))
      function.name += "." + std::to_string(trainMode);
    numbers.push_back(static_cast<int32_t>(list.size()));
    list.push_back(std::move(function));
  }
  return numbers;
}

} // namespace omnibal::exporter
