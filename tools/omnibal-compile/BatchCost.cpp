//===- BatchCost.cpp ---------------------------------------------------------------------===//
#include "tools/omnibal-compile/BatchCost.h"
#include <nlohmann/json.hpp>

namespace omnibal::compile {

std::string batchCostJson(const cost::UnitCosts &costs) {
  nlohmann::ordered_json object = {
      {"tile_ns", costs.tileNs}, {"token_ns", costs.tokenNs}, {"square_ns", costs.squareNs}};
  if (costs.tileSquareNs > 0)
    object["tile_square_ns"] = costs.tileSquareNs;
  return object.dump() + "\n";
}

} // namespace omnibal::compile
