//===- LengthsFuzz.cpp - Tables of lengths as CSV --------------------------------------------===//
#include "runtime/batching/io/LengthsCsv.h"
#include "test/fuzz/Fuzz.h"

namespace omnibal::fuzz {

/// The reader has a block of 1 MiB, and room for a block of samples.
const Allowance allowance{size_t{8} << 20, 512};

namespace {

using namespace rt;

std::string csvOf(const SampleLengths &lengths) {
  const bool pictures = lengths.knowsPictures();
  std::string text = pictures ? "vit_num,token_num,vit_square_sum\n" : "vit_num,token_num\n";
  for (size_t i = 0; i < lengths.tiles.size(); ++i)
    text += std::to_string(lengths.tiles[i]) + "," + std::to_string(lengths.tokens[i]) +
            (pictures ? "," + std::to_string(lengths.squaredTiles[i]) : "") + "\n";
  return text;
}

} // namespace

void run(std::string_view input) {
  static MemoryFile file;
  file.set(input);
  auto lengths = readLengthsCsv(file.path());
  if (!lengths)
    return;
  file.set(csvOf(*lengths));
  auto again = readLengthsCsv(file.path());
  require(again.status());
  require(again->tiles == lengths->tiles && again->tokens == lengths->tokens &&
              again->squaredTiles == lengths->squaredTiles,
          "the lengths changed");
}

} // namespace omnibal::fuzz
