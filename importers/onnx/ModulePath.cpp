//===- ModulePath.cpp - The module a node comes from -------------------------------------===//
#include "importers/onnx/ModulePath.h"
#include "llvm/ADT/StringExtras.h"
#include <string>
#include <vector>

using namespace mlir;

namespace omnibal::onnx {

namespace {

/// The strings of a Python list's text: ['', 'model', "it's"]. Whatever does not look like one ends
/// the list; the metadata is a hint only.
std::vector<std::string> parseList(llvm::StringRef text) {
  std::vector<std::string> items;
  for (size_t i = 0; i < text.size(); ++i) {
    char quote = text[i];
    if (quote != '\'' && quote != '"')
      continue;
    std::string item;
    for (++i; i < text.size() && text[i] != quote; ++i) {
      if (text[i] == '\\' && i + 1 < text.size())
        ++i;
      item.push_back(text[i]);
    }
    items.push_back(std::move(item));
  }
  return items;
}

bool isPath(llvm::StringRef text) {
  return !text.empty() && !text.starts_with("_empty_") && llvm::all_of(text, [](char c) {
    return llvm::isAlnum(c) || c == '.' || c == '_' || c == '-';
  });
}

} // namespace

StringAttr modulePath(const NodeProto &node, MLIRContext *context) {
  for (const StringStringEntryProto &entry : node.metadata_props()) {
    if (entry.key() != "pkg.torch.onnx.name_scopes")
      continue;
    // The last item is the node itself.
    std::vector<std::string> scopes = parseList(entry.value());
    if (scopes.size() >= 2 && isPath(scopes[scopes.size() - 2]))
      return StringAttr::get(context, scopes[scopes.size() - 2]);
  }
  // The TorchScript exporter has no metadata but node names "/model/layers.0/mlp/MatMul".
  llvm::StringRef name = node.name();
  if (!name.consume_front("/") || !name.contains('/'))
    return {};
  std::string path = name.rsplit('/').first.str();
  std::replace(path.begin(), path.end(), '/', '.');
  return isPath(path) ? StringAttr::get(context, path) : StringAttr();
}

} // namespace omnibal::onnx
