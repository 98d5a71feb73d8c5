//===- ClusterJson.h - The cluster part of a problem as JSON -----------------------------===//
#ifndef RUNTIME_PLANNER_JSON_CLUSTERJSON_H
#define RUNTIME_PLANNER_JSON_CLUSTERJSON_H

#include "runtime/planner/model/Node.h"
#include "runtime/support/JsonWriter.h"
#include "runtime/support/Status.h"
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

namespace omnibal::planner {

/// The link that is assumed where none is described: 10 us and 10 GB/s.
constexpr Link defaultLink{10'000, 10'000'000'000};

/// Reads `stages`, `memory_bytes` (a number, or a list of one or `stages` numbers), `link` and
/// `data_parallel`; only `stages` is required, links are `defaultLink`
/// where they are not given. Keys other than these and `alsoKnown` are errors.
/// `where` names file and key in messages.
rt::Result<Cluster> readCluster(const nlohmann::json &object, const std::string &where,
                                std::initializer_list<std::string_view> alsoKnown = {});

/// A file of its own: a cluster and what device its stages have.
struct ClusterFile {
  Cluster cluster;
  bool givesStages = false, givesReplicas = false;       ///< else they are one
  bool givesLink = false, givesDataParallelLink = false; ///< else they are the default one
  std::string deviceName;                                ///< empty: `device` is no name
  std::shared_ptr<const nlohmann::json> deviceObject;    ///< null: `device` is no object
  std::optional<Node> node;  ///< the ranks of one machine, and the link among them
  std::optional<Link> parts; ///< among the ranks that run a stage together
};

rt::Result<ClusterFile> readClusterFile(const std::string &path);
/// The same from text; `where` stands for the file in messages.
rt::Result<ClusterFile> parseClusterFile(std::string_view text, const std::string &where);
/// The same from an object of another file.
rt::Result<ClusterFile> clusterFileOf(const nlohmann::json &value, const std::string &where);

/// What `readCluster` reads, and how the ranks are numbered where it is not the usual way.
void writeCluster(rt::JsonWriter &out, const Cluster &cluster);
/// The same of ranks that are not divided yet: limit and links of all.
void writeUndivided(rt::JsonWriter &out, const Cluster &cluster, const std::optional<Node> &node);

} // namespace omnibal::planner
#endif // RUNTIME_PLANNER_JSON_CLUSTERJSON_H
