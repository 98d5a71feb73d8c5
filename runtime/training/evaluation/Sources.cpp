#include "runtime/training/evaluation/Sources.h"
#include <algorithm>
#include <filesystem>
#include <set>

namespace omnibal::rt {
namespace {

namespace fs = std::filesystem;

fs::path folderOf(const std::string &shard) {
  std::error_code ignored;
  fs::path whole = fs::absolute(shard, ignored).lexically_normal();
  return whole.parent_path();
}

/// The last `parts` parts of a path.
std::string endOf(const fs::path &path, size_t parts) {
  const std::vector<fs::path> all(path.begin(), path.end());
  fs::path end;
  for (size_t i = all.size() - std::min(parts, all.size()); i < all.size(); ++i)
    end /= all[i];
  return end.string();
}

} // namespace

Sources sourcesOf(const std::vector<std::string> &shards) {
  Sources sources;
  std::vector<fs::path> folders;
  for (const std::string &shard : shards) {
    fs::path folder = folderOf(shard);
    const auto known = std::find(folders.begin(), folders.end(), folder);
    sources.ofShards.push_back(known - folders.begin());
    if (known == folders.end())
      folders.push_back(std::move(folder));
  }
  for (size_t parts = 1; sources.names.size() < folders.size(); ++parts) {
    std::set<std::string> names;
    for (const fs::path &folder : folders)
      names.insert(endOf(folder, parts));
    if (names.size() == folders.size()) // whole paths differ
      for (const fs::path &folder : folders)
        sources.names.push_back(endOf(folder, parts));
  }
  return sources;
}

} // namespace omnibal::rt
