//===- PooledLengths.h - The real samples of test/data/lengths -------------------------------===//
#ifndef TEST_UNIT_RUNTIME_BATCHING_POOLEDLENGTHS_H
#define TEST_UNIT_RUNTIME_BATCHING_POOLEDLENGTHS_H

#include "runtime/batching/Balance.h"
#include <fstream>
#include <gtest/gtest.h>
#include <string>

namespace omnibal::rt::test {

inline SampleLengths pooledLengths() {
  SampleLengths lengths;
  std::ifstream file(OMNIBAL_TEST_DATA "/lengths/pooled.csv");
  std::string header;
  std::getline(file, header);
  int32_t tiles = 0, tokens = 0;
  int64_t count = 0;
  char comma = 0;
  while (file >> tiles >> comma >> tokens >> comma >> count) {
    lengths.tiles.insert(lengths.tiles.end(), count, tiles);
    lengths.tokens.insert(lengths.tokens.end(), count, tokens);
  }
  EXPECT_EQ(lengths.size(), 60495);
  return lengths;
}

} // namespace omnibal::rt::test
#endif // TEST_UNIT_RUNTIME_BATCHING_POOLEDLENGTHS_H
