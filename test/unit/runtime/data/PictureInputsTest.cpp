// What follows from pictures' sizes: by hand, and against Transformers' functions bit by bit.
#include "runtime/data/Packing.h"
#include "runtime/support/Safetensors.h"
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

using Ints = std::vector<int32_t>;

TEST(PictureInputs, TwoPicturesByHand) {
  // Windows of 2 x 2 units; a picture of 3 x 2 units is cut into two windows, one of 1 x 1 is one.
  const PictureGrid grid{4, 2, 1, 16, 0};
  const PictureUnits pictures[] = {{3, 2}, {1, 1}};
  PictureInputs inputs = pictureInputs(pictures, grid);
  EXPECT_EQ(inputs.integers.at("image_segment_cu_seqlens"), (Ints{0, 24, 28, 28, 28, 28, 28, 28}));
  EXPECT_EQ(inputs.integers.at("image_window_cu_seqlens"), (Ints{0, 16, 24, 28, 28, 28, 28, 28}));
  EXPECT_EQ(inputs.integers.at("image_window_index"), (Ints{0, 1, 2, 3, 4, 5, 6}));
  const Ints &at = inputs.integers.at("image_position_ids");
  ASSERT_EQ(at.size(), 56u);
  // The second unit of the first picture: rows 0 and 1, columns 2 and 3.
  EXPECT_EQ(Ints(at.begin() + 8, at.begin() + 16), (Ints{0, 2, 0, 3, 1, 2, 1, 3}));
  EXPECT_EQ(inputs.integers.count("image_interp_indices"), 0u);
}

TEST(PictureInputs, WindowsReorderUnits) {
  // 2 x 3 units in windows of 2 x 2: the units of columns 0 and 1, then those of column 2.
  const PictureUnits picture[] = {{2, 3}};
  PictureInputs inputs = pictureInputs(picture, {4, 2, 2, 16, 0});
  EXPECT_EQ(inputs.integers.at("image_window_index"), (Ints{0, 1, 3, 4, 2, 5}));
  EXPECT_EQ(inputs.integers.at("image_window_inverse"), (Ints{0, 1, 4, 2, 3, 5}));
  EXPECT_EQ(inputs.integers.at("image_window_cu_seqlens"), (Ints{0, 16, 24, 24, 24, 24, 24}));
}

TEST(PictureInputs, InterpolationByHand) {
  // 2 x 1 patches over a table of 3 x 3: the rows meet entries 0 and 2, the column entry 0.
  const PictureUnits picture[] = {{2, 1}};
  PictureInputs inputs = pictureInputs(picture, {4, 1, 1, 0, 3});
  EXPECT_EQ(inputs.integers.at("image_interp_indices"), (Ints{0, 1, 3, 4, 6, 7, 6, 7}));
  EXPECT_EQ(inputs.interpWeights, (std::vector<float>{1, 0, 0, 0, 1, 0, 0, 0}));
}

TEST(PictureInputs, CubicInterpolationByHand) {
  // A table of 4 x 4, half-pixel centers: the two rows of patches lie at 0.5 and 2.5, the column
  // at 1.5. So all weights of an axis are those of the distances 1.5, 0.5, 0.5 and 1.5.
  const PictureUnits picture[] = {{2, 1}};
  PictureInputs inputs =
      pictureInputs(picture, {4, 1, 1, 0, 4, Interpolation::Bicubic, /*alignCorners=*/false});
  EXPECT_EQ(inputs.integers.at("image_interp_indices"),
            (Ints{0, 1, 2, 3, 0, 1, 2,  3,  4,  5,  6,  7,  8,  9,  10, 11,    // rows -1, 0, 1, 2
                  4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 12, 13, 14, 15})); // rows 1, 2, 3, 4
  const float axis[] = {-0.09375f, 0.59375f, 0.59375f, -0.09375f};
  ASSERT_EQ(inputs.interpWeights.size(), 32u);
  for (size_t i = 0; i < 32; ++i)
    EXPECT_EQ(inputs.interpWeights[i], axis[i / 4 % 4] * axis[i % 4]) << i;
}

TEST(PictureInputs, CubicInterpolationMeetsEntries) {
  // As many patches as the table has entries, on each of them: distances 1, 0, 1 and 2.
  const PictureUnits picture[] = {{3, 3}};
  for (bool corners : {false, true}) {
    PictureInputs inputs = pictureInputs(picture, {4, 1, 1, 0, 3, Interpolation::Bicubic, corners});
    ASSERT_EQ(inputs.interpWeights.size(), 9u * 16);
    for (int32_t patch = 0; patch < 9; ++patch)
      for (size_t tap = 0; tap < 16; ++tap)
        EXPECT_EQ(inputs.interpWeights[size_t(patch) * 16 + tap], tap == 5 ? 1.0f : 0.0f);
    for (int32_t patch = 0; patch < 9; ++patch)
      EXPECT_EQ(inputs.integers.at("image_interp_indices")[size_t(patch) * 16 + 5], patch);
  }
}

TEST(PictureInputs, NoPictures) {
  PictureInputs inputs = pictureInputs({}, {4, 2, 2, 16, 5});
  for (const char *borders : {"image_segment_cu_seqlens", "image_window_cu_seqlens"})
    EXPECT_EQ(inputs.integers.at(borders), Ints{0});
  for (const char *empty :
       {"image_position_ids", "image_window_index", "image_window_inverse", "image_interp_indices"})
    EXPECT_EQ(inputs.integers.at(empty), Ints{}) << empty;
  EXPECT_TRUE(inputs.interpWeights.empty());
}

TEST(PictureInputs, PositionsByHand) {
  const PictureUnits pictures[] = {{2, 3}, {1, 1}};
  TokenPositions at;
  appendPositions(Ints{1, 4, 4, 4, 4, 4, 4, 5, 4, 6}, 4, pictures, at);
  EXPECT_EQ(at[0], (Ints{0, 1, 1, 1, 1, 1, 1, 4, 5, 6}));
  EXPECT_EQ(at[1], (Ints{0, 1, 1, 1, 2, 2, 2, 4, 5, 6}));
  EXPECT_EQ(at[2], (Ints{0, 1, 2, 3, 1, 2, 3, 4, 5, 6}));
}

/// Tensors that Transformers' functions made (test/data/make_picture_inputs.py).
class Reference {
public:
  Reference() : file(*SafetensorsFile::open(OMNIBAL_TEST_DATA "/pictures/inputs.safetensors")) {}

  bool has(const std::string &name) const { return file->find(name) != nullptr; }
  template <typename T> std::vector<T> read(const std::string &name, DType type) const {
    const StoredTensor *tensor = file->find(name);
    std::vector<T> values(tensor ? size_t(tensor->elements) : 0);
    EXPECT_TRUE(tensor && convertTensor(*tensor, type, values.data())) << name;
    return values;
  }
  Ints integers(const std::string &name) const { return read<int32_t>(name, DType::I32); }

private:
  std::shared_ptr<const SafetensorsFile> file;
};

TEST(PictureInputs, AsTransformersBitByBit) {
  Reference reference;
  int cases = 0, windows = 0, tables = 0;
  for (; reference.has(std::to_string(cases) + ".grid"); ++cases) {
    const std::string prefix = std::to_string(cases) + ".";
    SCOPED_TRACE(prefix);
    const Ints g = reference.integers(prefix + "grid"),
               sizes = reference.integers(prefix + "pictures"),
               ids = reference.integers(prefix + "input_ids"),
               starts = reference.integers(prefix + "samples");
    PackingRules rules;
    rules.grid = PictureGrid{g[0], g[1], g[2], g[3], g[4], Interpolation(g[5]), g[6] != 0};
    rules.imageTokenId = 4;
    rules.tokensPerTile = 1;
    rules.tilesCap = rules.tokensCap = 1000;
    std::vector<PictureUnits> pictures;
    for (size_t p = 0; p < sizes.size(); p += 2)
      pictures.push_back({sizes[p], sizes[p + 1]});
    std::vector<SampleView> samples;
    size_t first = 0;
    for (size_t s = 0; s + 1 < starts.size(); ++s) {
      SampleView &view = samples.emplace_back();
      view.inputIds = std::span(ids).subspan(starts[s], starts[s + 1] - starts[s]);
      int64_t tokens = std::count(view.inputIds.begin(), view.inputIds.end(), 4), last = first;
      for (; view.tiles < tokens; ++last)
        view.tiles += pictures[last].count();
      view.pictures = std::span(pictures).subspan(first, last - first);
      first = last;
    }
    auto packed = pack(samples, rules);
    ASSERT_TRUE(packed) << packed.status().message();
    for (const auto &[name, values] : packed->pictureInputs.integers) {
      Ints expected = reference.integers(prefix + name);
      if (name.ends_with("cu_seqlens")) // fixed length: the last border again and again
        expected.resize(packed->tiles + 1, expected.back());
      EXPECT_EQ(values, expected) << name;
      auto type = pictureInput(name, *rules.grid);
      ASSERT_TRUE(type) << name;
      int64_t elements = 1;
      for (const Extent &e : type->shape)
        elements *= e.evaluate(packed->tiles, packed->tokens);
      EXPECT_EQ(int64_t(values.size()), elements) << name;
    }
    windows += packed->pictureInputs.integers.count("image_window_index");
    if (!reference.has(prefix + "image_interp_weights"))
      continue;
    ++tables;
    EXPECT_EQ(packed->pictureInputs.interpWeights,
              reference.read<float>(prefix + "image_interp_weights", DType::F32));
  }
  EXPECT_EQ(cases, 8);
  EXPECT_EQ(windows, 3);
  EXPECT_EQ(tables, 7);
}

TEST(PictureInputs, ImageTokensMustBeThoseOfThePictures) {
  const PictureUnits pictures[] = {{1, 2}, {2, 2}};
  auto check = [&](const Ints &ids) { return checkImageTokens(ids, 4, pictures).message(); };
  EXPECT_EQ(check({1, 4, 4, 5, 4, 4, 4, 4, 2}), "");
  EXPECT_EQ(check({4, 4, 4, 4, 4, 4}), ""); // side by side
  auto expect = [&](const Ints &ids, const std::string &part) {
    EXPECT_NE(check(ids).find(part), std::string::npos) << check(ids);
  };
  expect({4, 4, 4, 5, 4, 4, 4}, "picture 1 has 2 x 2 = 4 units, but its run of image tokens ends 3 "
                                "short, before token 3");
  expect({4, 4, 4, 4, 4, 4, 4}, "token 6 is one more than its 2 pictures have units");
  expect({4, 4, 1, 4, 4, 4}, "picture 1 has 2 x 2 = 4 units, but the tokens end before its last");
  expect({4, 4, 1}, "picture 1 has 2 x 2 = 4 units, but the tokens end before its first");
}

TEST(PictureInputs, PackingRefusesOtherRuns) {
  PackingRules rules;
  rules.grid = PictureGrid{4, 2, 2, 16, 0};
  rules.imageTokenId = 4;
  rules.tokensPerTile = 1;
  rules.tilesCap = rules.tokensCap = 100;
  const PictureUnits pictures[] = {{1, 2}, {1, 1}};
  Ints ids = {4, 1, 4, 4};
  SampleView view{"k", ids, {}, {}, 3, pictures};
  EXPECT_NE(pack({&view, 1}, rules).status().message().find("sample \"k\": the image tokens (4)"),
            std::string::npos);
}

} // namespace
} // namespace omnibal::rt
