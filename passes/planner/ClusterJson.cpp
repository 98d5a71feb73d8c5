//===- ClusterJson.cpp -------------------------------------------------------------------===//
#include "passes/planner/ClusterJson.h"
#include "llvm/ADT/STLExtras.h"

namespace omnibal::planner {
namespace json = llvm::json;
namespace {

llvm::Error bad(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

llvm::Error readNumber(const json::Object &object, llvm::StringRef key, llvm::StringRef where,
                       int64_t least, int64_t &out) {
  const json::Value *value = object.get(key);
  if (!value)
    return llvm::Error::success();
  std::optional<int64_t> number = value->getAsInteger();
  if (!number || *number < least)
    return bad(where + ": `" + key + "` must be an integer of at least " + llvm::Twine(least));
  out = *number;
  return llvm::Error::success();
}

llvm::Error readLink(const json::Object &object, llvm::StringRef where, Link &link,
                     llvm::StringRef alsoKnown = "") {
  for (const auto &entry : object)
    if (entry.first != "latency_ns" && entry.first != "bytes_per_s" &&
        llvm::StringRef(entry.first) != alsoKnown)
      return bad(where + ": unknown key `" + llvm::StringRef(entry.first) + "`");
  if (llvm::Error error = readNumber(object, "latency_ns", where, 0, link.latencyNs))
    return error;
  return readNumber(object, "bytes_per_s", where, 1, link.bytesPerSecond);
}

llvm::Error readMemory(const json::Object &object, llvm::StringRef where, Cluster &cluster) {
  const json::Value *value = object.get("memory_bytes");
  if (!value)
    return llvm::Error::success();
  if (std::optional<int64_t> number = value->getAsInteger(); number && *number > 0) {
    cluster.memoryBytes = {*number};
    return llvm::Error::success();
  }
  const json::Array *list = value->getAsArray();
  if (!list || (list->size() != 1 && static_cast<int64_t>(list->size()) != cluster.stages))
    return bad(where +
               ": `memory_bytes` must be a positive number, or a list of one or `stages` of them");
  for (const json::Value &element : *list) {
    std::optional<int64_t> number = element.getAsInteger();
    if (!number || *number <= 0)
      return bad(where + ": `memory_bytes` must hold positive integers");
    cluster.memoryBytes.push_back(*number);
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<Cluster> readCluster(const json::Object &object, llvm::StringRef where,
                                    llvm::ArrayRef<llvm::StringRef> alsoKnown) {
  static constexpr llvm::StringLiteral known[] = {"stages", "memory_bytes", "link",
                                                  "data_parallel"};
  for (const auto &entry : object)
    if (!llvm::is_contained(known, llvm::StringRef(entry.first)) &&
        !llvm::is_contained(alsoKnown, llvm::StringRef(entry.first)))
      return bad(where + ": unknown key `" + llvm::StringRef(entry.first) + "`");
  Cluster cluster;
  cluster.link = cluster.dataParallelLink = defaultLink;
  if (!object.getInteger("stages"))
    return bad(where + ": `stages` is missing or not an integer");
  if (llvm::Error error = readNumber(object, "stages", where, 1, cluster.stages))
    return std::move(error);
  if (llvm::Error error = readMemory(object, where, cluster))
    return std::move(error);
  if (const json::Object *link = object.getObject("link"))
    if (llvm::Error error = readLink(*link, (where + ".link").str(), cluster.link))
      return std::move(error);
  if (const json::Object *replicas = object.getObject("data_parallel")) {
    std::string place = (where + ".data_parallel").str();
    if (llvm::Error error = readLink(*replicas, place, cluster.dataParallelLink, "size"))
      return std::move(error);
    if (llvm::Error error = readNumber(*replicas, "size", place, 1, cluster.dataParallel))
      return std::move(error);
  }
  return cluster;
}

} // namespace omnibal::planner
