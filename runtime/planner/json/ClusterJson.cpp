//===- ClusterJson.cpp -------------------------------------------------------------------===//
#include "runtime/planner/json/ClusterJson.h"
#include "runtime/planner/json/JsonPlace.h"
#include <algorithm>

namespace omnibal::planner {
using nlohmann::json;
using rt::invalid;
using rt::Status;
namespace {

/// Of links that no problem has, as nothing in a problem may take longer.
constexpr int64_t mostLatencyNs = int64_t{1} << 59;

Status readNumber(const json &object, const char *key, const std::string &where, int64_t least,
                  int64_t &out) {
  const json *value = memberOf(object, key);
  if (!value)
    return Status::ok();
  std::optional<int64_t> number = integerOf(*value);
  if (!number || *number < least)
    return invalid(where + ": `" + key + "` must be an integer of at least " +
                   std::to_string(least));
  out = *number;
  return Status::ok();
}

Status readLink(const json &object, const std::string &where, Link &link,
                std::initializer_list<std::string_view> alsoKnown = {}) {
  for (const auto &[key, ignored] : object.items())
    if (key != "latency_ns" && key != "bytes_per_s" &&
        std::find(alsoKnown.begin(), alsoKnown.end(), key) == alsoKnown.end())
      return invalid(where + ": unknown key `" + key + "`");
  OMNIBAL_RETURN_IF_ERROR(readNumber(object, "latency_ns", where, 0, link.latencyNs));
  return readNumber(object, "bytes_per_s", where, 1, link.bytesPerSecond);
}

Status readMemory(const json &object, const std::string &where, Cluster &cluster) {
  const json *value = memberOf(object, "memory_bytes");
  if (!value)
    return Status::ok();
  if (std::optional<int64_t> number = integerOf(*value); number && *number > 0) {
    cluster.memoryBytes = {*number};
    return Status::ok();
  }
  if (!value->is_array() ||
      (value->size() != 1 && static_cast<int64_t>(value->size()) != cluster.stages))
    return invalid(
        where + ": `memory_bytes` must be a positive number, or a list of one or `stages` of them");
  for (const json &element : *value) {
    std::optional<int64_t> number = integerOf(element);
    if (!number || *number <= 0)
      return invalid(where + ": `memory_bytes` must hold positive integers");
    cluster.memoryBytes.push_back(*number);
  }
  return Status::ok();
}

/// A link inside a node is as fast as is said; what is usual differs too much to be assumed.
Status readNode(const json &object, const std::string &where, std::optional<Node> &out) {
  const json *value = objectIn(object, "node");
  const std::string place = where + ".node";
  if (!value)
    return invalid(where +
                   ": `node` is a JSON object with `ranks`, `latency_ns` and `bytes_per_s`");
  for (const char *key : {"ranks", "latency_ns", "bytes_per_s"})
    if (!memberOf(*value, key))
      return invalid(place + ": `" + key + "` is missing");
  Node node;
  OMNIBAL_RETURN_IF_ERROR(readLink(*value, place, node.link, {"ranks"}));
  OMNIBAL_RETURN_IF_ERROR(readNumber(*value, "ranks", place, 1, node.ranks));
  out = node;
  return Status::ok();
}

} // namespace

rt::Result<ClusterFile> clusterFileOf(const json &value, const std::string &where) {
  if (!value.is_object())
    return invalid(where + ": a cluster is a JSON object");
  ClusterFile file;
  file.givesStages = memberOf(value, "stages");
  json known = value;
  known.emplace("stages", 1);
  OMNIBAL_ASSIGN_OR_RETURN(file.cluster, readCluster(known, where, {"device", "node", "parts"}));
  file.givesLink = memberOf(value, "link");
  if (const json *replicas = objectIn(value, "data_parallel")) {
    file.givesReplicas = memberOf(*replicas, "size");
    file.givesDataParallelLink =
        memberOf(*replicas, "latency_ns") || memberOf(*replicas, "bytes_per_s");
  }
  if (memberOf(value, "node"))
    OMNIBAL_RETURN_IF_ERROR(readNode(value, where, file.node));
  if (memberOf(value, "parts")) {
    const json *parts = objectIn(value, "parts");
    if (!parts || !memberOf(*parts, "latency_ns") || !memberOf(*parts, "bytes_per_s"))
      return invalid(where + ": `parts` is a JSON object with `latency_ns` and `bytes_per_s`");
    OMNIBAL_RETURN_IF_ERROR(readLink(*parts, where + ".parts", file.parts.emplace(), {}));
    if (file.parts->latencyNs > mostLatencyNs)
      return invalid(where + ".parts: `latency_ns` is more than 2^59");
  }
  if (const std::string *name = textIn(value, "device"))
    file.deviceName = *name;
  if (const json *device = objectIn(value, "device"))
    file.deviceObject = std::make_shared<const json>(*device);
  return file;
}

rt::Result<Cluster> readCluster(const json &object, const std::string &where,
                                std::initializer_list<std::string_view> alsoKnown) {
  for (const auto &[key, ignored] : object.items())
    if (key != "stages" && key != "memory_bytes" && key != "link" && key != "data_parallel" &&
        std::find(alsoKnown.begin(), alsoKnown.end(), key) == alsoKnown.end())
      return invalid(where + ": unknown key `" + key + "`");
  Cluster cluster;
  cluster.link = cluster.dataParallelLink = defaultLink;
  const json *stages = memberOf(object, "stages");
  if (!stages || !integerOf(*stages))
    return invalid(where + ": `stages` is missing or not an integer");
  OMNIBAL_RETURN_IF_ERROR(readNumber(object, "stages", where, 1, cluster.stages));
  OMNIBAL_RETURN_IF_ERROR(readMemory(object, where, cluster));
  if (const json *link = objectIn(object, "link"))
    OMNIBAL_RETURN_IF_ERROR(readLink(*link, where + ".link", cluster.link));
  if (const json *replicas = objectIn(object, "data_parallel")) {
    std::string place = where + ".data_parallel";
    OMNIBAL_RETURN_IF_ERROR(readLink(*replicas, place, cluster.dataParallelLink, {"size", "zero"}));
    OMNIBAL_RETURN_IF_ERROR(readNumber(*replicas, "size", place, 1, cluster.dataParallel));
    OMNIBAL_RETURN_IF_ERROR(readNumber(*replicas, "zero", place, 0, cluster.zero));
    if (cluster.zero > 1)
      return invalid(place + ": `zero` must be 0 or 1 (replicas divide the optimizer's state)");
  }
  return cluster;
}

rt::Result<ClusterFile> readClusterFile(const std::string &path) {
  OMNIBAL_ASSIGN_OR_RETURN(json value, readPlainJson(path));
  return clusterFileOf(value, path);
}

rt::Result<ClusterFile> parseClusterFile(std::string_view text, const std::string &where) {
  OMNIBAL_ASSIGN_OR_RETURN(json value, parsePlainJson(text, where));
  return clusterFileOf(value, where);
}

namespace {

/// Stands in `memory_bytes` where there is no limit; doubles hold it exactly.
constexpr int64_t noMemoryLimit = (int64_t{1} << 53) - 1;

void writeLink(rt::JsonWriter &out, const Link &link) {
  out.attribute("latency_ns", link.latencyNs);
  out.attribute("bytes_per_s", link.bytesPerSecond);
}

void writeMemoryAndLink(rt::JsonWriter &out, const Cluster &cluster) {
  out.attributeArray("memory_bytes", [&] {
    if (cluster.memoryBytes.empty())
      out.value(noMemoryLimit);
    for (int64_t bytes : cluster.memoryBytes)
      out.value(bytes);
  });
  out.attributeObject("link", [&] { writeLink(out, cluster.link); });
}

} // namespace

void writeCluster(rt::JsonWriter &out, const Cluster &cluster) {
  out.attribute("stages", cluster.stages);
  writeMemoryAndLink(out, cluster);
  out.attributeObject("data_parallel", [&] {
    out.attribute("size", cluster.dataParallel);
    writeLink(out, cluster.dataParallelLink);
    if (cluster.zero > 0)
      out.attribute("zero", cluster.zero);
  });
  if (cluster.parts > 1)
    out.attribute("model_parallel", cluster.parts);
  if (cluster.rankOrder != rt::RankOrder::Stage)
    out.attribute("rank_order", rankOrderName(cluster.rankOrder));
}

void writeUndivided(rt::JsonWriter &out, const Cluster &cluster, const std::optional<Node> &node) {
  writeMemoryAndLink(out, cluster);
  out.attributeObject("data_parallel", [&] { writeLink(out, cluster.dataParallelLink); });
  if (node)
    out.attributeObject("node", [&] {
      out.attribute("ranks", node->ranks);
      writeLink(out, node->link);
    });
}

} // namespace omnibal::planner
