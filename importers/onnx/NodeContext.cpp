//===- NodeContext.cpp - One ONNX node, as the builder functions see it ------------------===//
#include "importers/onnx/NodeContext.h"

using namespace mlir;

namespace omnibal::onnx {

const AttributeProto *NodeContext::attribute(llvm::StringRef name) const {
  for (const AttributeProto &attribute : node.attribute()) {
    if (name != attribute.name())
      continue;
    if (attribute.ref_attr_name().empty())
      return &attribute;
    return references ? references->lookup(attribute.ref_attr_name()) : nullptr;
  }
  return nullptr;
}

int64_t NodeContext::getInt(llvm::StringRef name, int64_t otherwise) const {
  const AttributeProto *found = attribute(name);
  return found && found->has_i() ? found->i() : otherwise;
}

double NodeContext::getFloat(llvm::StringRef name, double otherwise) const {
  const AttributeProto *found = attribute(name);
  return found && found->has_f() ? double(found->f()) : otherwise;
}

std::string NodeContext::getString(llvm::StringRef name, llvm::StringRef otherwise) const {
  const AttributeProto *found = attribute(name);
  return found && found->has_s() ? found->s() : otherwise.str();
}

std::optional<llvm::SmallVector<int64_t>> NodeContext::getInts(llvm::StringRef name) const {
  const AttributeProto *found = attribute(name);
  if (!found)
    return std::nullopt;
  return llvm::SmallVector<int64_t>(found->ints().begin(), found->ints().end());
}

} // namespace omnibal::onnx
