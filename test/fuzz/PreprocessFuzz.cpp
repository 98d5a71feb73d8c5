//===- PreprocessFuzz.cpp - preprocessor_config.json -----------------------------------------===//
#include "runtime/data/GridFile.h"
#include "runtime/data/Preprocess.h"
#include "test/fuzz/Fuzz.h"
#include <cmath>

namespace omnibal::fuzz {

const Allowance allowance;

void run(std::string_view input) {
  using namespace rt;
  const std::string text(input);
  if (auto preprocess = Preprocess::parse(text, "preprocessor_config.json"))
    for (size_t channel = 0; channel < 3; ++channel)
      for (float value : preprocess->valuesOf(channel))
        require(std::isfinite(value), "a pixel becomes no number");
  if (auto grid = parsePictureGrid(text, "preprocessor_config.json"); grid && *grid)
    require((*grid)->unitPixels() > 0 && (*grid)->valuesPerUnit() > 0, "a unit is empty");
}

} // namespace omnibal::fuzz
