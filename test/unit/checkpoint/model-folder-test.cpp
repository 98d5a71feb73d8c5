// The saved folder holds trained values under the source's names and copies everything else.
#include "runtime/checkpoint/ModelFolder.h"
#include "test/unit/checkpoint/Ranks.h"
#include "test/unit/data/TestTar.h"
#include <cstring>
#include <gtest/gtest.h>

using namespace omnibal::rt;
using namespace omnibal::test;

namespace {

TEST(ModelFolder, TrainedChangedRestCopied) {
  TemporaryFolder folder;
  std::string from = OMNIBAL_TEST_DATA "/tiny-llava", to = folder / "out";
  auto source = TensorFiles::open(from);
  ASSERT_TRUE(source) << source.status().message();
  // Take two parameters of different ranks, one lying transposed in memory.
  std::string one, two;
  for (const std::string &name : source->names())
    (source->find(name)->shape.size() == 2 ? two : one) = name;
  std::vector<float> vector(size_t(source->find(one)->elements), 2.5f);
  auto shape = source->find(two)->shape;
  std::vector<float> matrix(size_t(source->find(two)->elements));
  for (int64_t r = 0; r < shape[0]; ++r)
    for (int64_t c = 0; c < shape[1]; ++c)
      matrix[size_t(c * shape[0] + r)] = float(r * 1000 + c);
  auto results = runRanks(2, [&](int rank, const Agreement &agree) {
    std::vector<NamedTensor> mine;
    if (rank == 0)
      mine.push_back({one, source->find(one)->shape, vector.data(), false});
    else
      mine.push_back({two, shape, matrix.data(), true});
    return saveModelFolder(to, *source, {one, two}, mine, rank == 0, agree);
  });
  for (const Status &status : results)
    ASSERT_TRUE(status) << status.message();

  auto saved = TensorFiles::open(to);
  ASSERT_TRUE(saved) << saved.status().message();
  EXPECT_EQ(saved->names(), source->names());
  EXPECT_EQ(saved->files()[0]->metadata().at("format"), "pt");
  for (const std::string &name : source->names()) {
    const StoredTensor *a = source->find(name), *b = saved->find(name);
    EXPECT_EQ(a->shape, b->shape);
    if (name != one && name != two) {
      EXPECT_EQ(std::memcmp(a->data, b->data, size_t(a->bytes)), 0) << name;
      continue;
    }
    std::vector<float> got(size_t(b->elements));
    ASSERT_TRUE(convertTensor(*b, DType::F32, got.data()));
    for (size_t i = 0; i < got.size(); ++i) {
      int64_t row = int64_t(i) / shape[1], column = int64_t(i) % shape[1];
      ASSERT_EQ(got[i], name == one ? 2.5f : float(row * 1000 + column)) << name;
    }
  }
  for (const char *name : {"config.json", "preprocessor_config.json", "vocab.json"})
    EXPECT_EQ(readFile(to + "/" + name), readFile(from + "/" + name)) << name;
  EXPECT_FALSE(std::filesystem::exists(to + "/reference.json"));
}

TEST(ModelFolder, AnUnknownParameterIsAnError) {
  TemporaryFolder folder;
  auto source = TensorFiles::open(OMNIBAL_TEST_DATA "/tiny-llava");
  ASSERT_TRUE(source);
  Status status = saveModelFolder(folder / "out", *source, {"nobody"}, {}, true, agreeAlone);
  ASSERT_FALSE(status);
  EXPECT_NE(status.message().find("nobody"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder / "out/model.safetensors"));
}

} // namespace
