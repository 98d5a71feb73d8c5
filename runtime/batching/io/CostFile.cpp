#include "runtime/batching/io/CostFile.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/JsonField.h"

namespace omnibal::rt {

Result<CostFile> readCostFile(const std::string &path) {
  OMNIBAL_ASSIGN_OR_RETURN(std::string text, readWholeFile(path));
  OMNIBAL_ASSIGN_OR_RETURN(nlohmann::json root, parseJson(text, path));
  CostFile file;
  LoadCost &cost = file.step.cost;
  const std::pair<const char *, double *> numbers[] = {{"tile_ns", &cost.tileNs},
                                                       {"token_ns", &cost.tokenNs},
                                                       {"square_ns", &cost.squareNs},
                                                       {"tile_square_ns", &cost.tileSquareNs},
                                                       {"microbatch_ns", &file.step.microbatchNs},
                                                       {"step_ns", &file.step.stepNs},
                                                       {"fixed_bytes", &file.memory.fixedBytes},
                                                       {"tile_bytes", &file.memory.tileBytes},
                                                       {"token_bytes", &file.memory.tokenBytes}};
  Status error;
  JsonField fields(root, path, error);
  fields.onlyKeys({"tile_ns", "token_ns", "square_ns", "tile_square_ns", "microbatch_ns", "step_ns",
                   "fixed_bytes", "tile_bytes", "token_bytes", "stages"});
  for (auto [key, value] : numbers)
    if (fields.has(key))
      *value = fields[key].number(0);
  if (fields.has("stages"))
    file.step.stages = static_cast<int32_t>(fields["stages"].integer(1, 1 << 20));
  if (!error)
    return invalid(error.message());
  if (!cost.isSet())
    return invalid(path +
                   ": one of tile_ns, token_ns, square_ns and tile_square_ns must be above 0");
  file.hasMemory = file.memory.tileBytes > 0 || file.memory.tokenBytes > 0;
  return file;
}

CostFile referenceCosts() {
  constexpr double flopsPerNs = 400e3, positions = 1025, layers = 24;
  constexpr double width = 2048, keys = 1024, inner = 8192, logits = 4 * 92553;
  CostFile file;
  file.step.cost.tileNs = 6 * 0.3e9 * positions / flopsPerNs;
  file.step.cost.tokenNs = 6 * 1.8e9 / flopsPerNs;
  file.step.cost.squareNs = 6 * width * layers / flopsPerNs;
  file.step.microbatchNs = 2e6;
  file.memory.tileBytes = 32 * 1024 * positions * layers;
  file.memory.tokenBytes = (12 * width + 4 * keys + 6 * inner) * layers + logits;
  file.hasMemory = true;
  return file;
}

} // namespace omnibal::rt
