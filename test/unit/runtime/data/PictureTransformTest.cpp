// What becomes of pictures against what the image processors of Transformers make of them
// (test/data/make_original_pictures.py).
#include "runtime/data/pictures/PictureTransform.h"
#include "runtime/data/Dataset.h"
#include "runtime/data/pictures/EncodePng.h"
#include "runtime/support/Json.h"
#include "runtime/support/Safetensors.h"
#include "test/unit/runtime/data/TestTar.h"
#include <gtest/gtest.h>

using namespace omnibal::rt;
using namespace omnibal::test;

namespace {

const std::string folder = OMNIBAL_TEST_DATA "/pictures/";

std::string settings(const nlohmann::json &kind) {
  return nlohmann::json{{"omnibal", {{"original_pictures", kind}}}}.dump();
}

PictureTransform transformOf(const nlohmann::json &kind) {
  auto read = PictureTransform::parse(settings(kind), "p.json");
  EXPECT_TRUE(read) << read.status().message();
  return **read;
}

Image imageOf(const StoredTensor &pixels) {
  Image image;
  image.height = pixels.shape[0];
  image.width = pixels.shape[1];
  const auto *bytes = reinterpret_cast<const uint8_t *>(pixels.data);
  image.rgb.assign(bytes, bytes + pixels.elements);
  return image;
}

struct PictureTransforms : testing::Test {
  void SetUp() override {
    auto opened = SafetensorsFile::open(folder + "originals.safetensors");
    ASSERT_TRUE(opened) << opened.status().message();
    file = *opened;
    kinds = *parseJson(readFile(folder + "originals.json"), "originals.json");
  }
  const StoredTensor *find(const std::string &name) const {
    for (const StoredTensor &tensor : file->tensors())
      if (tensor.name == name)
        return &tensor;
    return nullptr;
  }
  std::shared_ptr<const SafetensorsFile> file;
  nlohmann::json kinds;
};

TEST_F(PictureTransforms, GiveTheProcessorsTiles) {
  int compared = 0;
  for (const auto &[name, kind] : kinds.items())
    for (int number = 0; const StoredTensor *wanted = find(name + "." + std::to_string(number));
         ++number) {
      const PictureTransform transform = transformOf(kind);
      const Image picture = imageOf(*find("picture." + std::to_string(number)));
      auto tiles = transform.apply(picture);
      ASSERT_TRUE(tiles) << name << number;
      ASSERT_EQ(static_cast<int64_t>(tiles->size()), wanted->shape[0]) << name << number;
      EXPECT_EQ(transform.layoutOf(picture)->tiles(), wanted->shape[0]) << name << number;
      std::vector<uint8_t> all;
      for (const Image &tile : *tiles) {
        EXPECT_EQ(tile.height, wanted->shape[1]) << name << number;
        EXPECT_EQ(tile.width, wanted->shape[2]) << name << number;
        if (transform.tileSize())
          EXPECT_EQ(ImageSize(tile), *transform.tileSize()) << name << number;
        all.insert(all.end(), tile.rgb.begin(), tile.rgb.end());
      }
      const auto *bytes = reinterpret_cast<const uint8_t *>(wanted->data);
      EXPECT_EQ(all, std::vector<uint8_t>(bytes, bytes + wanted->elements)) << name << number;
      ++compared;
    }
  EXPECT_EQ(compared, 8 * 7 + 1);
}

/// Counted by hand.
TEST_F(PictureTransforms, LayoutsByHand) {
  // 100 x 50 is 2 x 1 tiles, and 4 x 2 of 28 pixels cover 6272 pixels, of which it has more than
  // half.
  auto tiles = *transformOf({{"kind", "tiles"},
                             {"height", 28},
                             {"width", 28},
                             {"min_tiles", 1},
                             {"max_tiles", 8},
                             {"resample", "bicubic"},
                             {"order", "auto"}})
                    .layoutOf({50, 100});
  EXPECT_EQ(std::pair(tiles.rows, tiles.columns), std::pair(int64_t{2}, int64_t{4}));
  EXPECT_EQ(tiles.canvas, (ImageSize{56, 112}));
  EXPECT_EQ(tiles.tiles(), 9);
  // 60 x 50 at a multiple of 28 is 56 x 56: halves go to the even side.
  nlohmann::json units = {{"kind", "units"},      {"factor", 28},          {"min_pixels", 784},
                          {"max_pixels", 100000}, {"resample", "bicubic"}, {"order", "rows"}};
  EXPECT_EQ(transformOf(units).layoutOf({50, 60})->canvas, (ImageSize{56, 56}));
  EXPECT_EQ(transformOf(units).layoutOf({42, 70})->canvas, (ImageSize{56, 56})); // 1.5, 2.5
  // Too few pixels: 10 x 10 becomes at least 784 of them.
  EXPECT_EQ(transformOf(units).layoutOf({10, 10})->canvas, (ImageSize{28, 28}));
  units["max_pixels"] = 2000; // 56 x 56 are too many: 100 / 2.24 = 44.7, one unit
  EXPECT_EQ(transformOf(units).layoutOf({100, 100})->canvas, (ImageSize{28, 28}));
}

TEST_F(PictureTransforms, AnElongatedPictureIsRefused) {
  const PictureTransform fixed = transformOf(kinds["fixed"]);
  EXPECT_TRUE(fixed.layoutOf({1, 200}));
  auto refused = fixed.layoutOf({1, 201});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.status().message().find("201 x 1 pixels"), std::string::npos);
  EXPECT_FALSE(fixed.layoutOf({0, 10}));
  // Short sides grow with long ones.
  EXPECT_FALSE(transformOf({{"kind", "shortest_edge"},
                            {"edge", 8000},
                            {"height", 28},
                            {"width", 28},
                            {"resample", "box"},
                            {"order", "rows"}})
                   .layoutOf({10, 100}));
}

TEST_F(PictureTransforms, WhatAFileMayNotSay) {
  EXPECT_FALSE(*PictureTransform::parse("{}", "p.json")); // prepared pictures
  const std::pair<nlohmann::json, const char *> changes[] = {
      {{{"kind", "cubes"}}, "kind \"cubes\""},
      {{{"kind", 3}}, "kind is missing"},
      {{{"height", 0}}, "height must be"},
      {{{"height", -28}}, "height must be"},
      {{{"width", 1e9}}, "width must be"},
      {{{"max_tiles", 1025}}, "max_tiles must be"},
      {{{"min_tiles", 7}}, "min_tiles must be"},
      {{{"resample", "nearest"}}, "resample \"nearest\""},
      {{{"order", "columns"}}, "order \"columns\""},
      {{{"order", nullptr}}, "order is missing"}};
  for (const auto &[change, message] : changes) {
    nlohmann::json kind = kinds["tiles"];
    kind.update(change);
    auto read = PictureTransform::parse(settings(kind), "p.json");
    ASSERT_FALSE(read) << change;
    EXPECT_NE(read.status().message().find("p.json: omnibal.original_pictures"), std::string::npos);
    EXPECT_NE(read.status().message().find(message), std::string::npos) << read.status().message();
  }
  for (const char *text : {R"({"omnibal": 3})", R"({"omnibal": {}})",
                           R"({"omnibal": {"original_pictures": true}})", "{"})
    EXPECT_FALSE(PictureTransform::parse(text, "p.json")) << text;
}

/// A shard with one sample of two pictures as they are.
struct OriginalShard : PictureTransforms {
  void SetUp() override {
    PictureTransforms::SetUp();
    std::vector<std::pair<std::string, std::string>> members = {
        {"a.json", R"({"input_ids": [1, 2], "labels": [1, 2], "images": 2})"}};
    for (int p = 0; p < 2; ++p)
      members.emplace_back("a." + std::to_string(p) + ".png",
                           *encodePng(imageOf(*find("picture." + std::to_string(p)))));
    writeFile(shard(), makeTar(members));
  }
  std::string shard() const { return temporary / "s.tar"; }
  TemporaryFolder temporary;
  const Preprocess plain = *Preprocess::parse(R"({"do_rescale": false})", "");
};

TEST_F(OriginalShard, IsReadAsTheTilesOfItsPictures) {
  auto data = Dataset::open({shard()}, std::nullopt, transformOf(kinds["tiles"]));
  ASSERT_TRUE(data) << data.status().message();
  const StoredTensor *first = find("tiles.0"), *second = find("tiles.1");
  EXPECT_EQ((*data)->pictures(0), 2);
  EXPECT_EQ((*data)->tiles(0), first->shape[0] + second->shape[0]);
  EXPECT_EQ((*data)->sample(0)->tiles, (*data)->tiles(0));
  std::vector<float> got(static_cast<size_t>((*data)->tiles(0) * 3 * 28 * 28));
  ASSERT_TRUE((*data)->decodeTiles(0, plain, 28, 28, got.data()));
  size_t at = 0;
  for (const StoredTensor *tiles : {first, second})
    for (int64_t t = 0; t < tiles->shape[0]; ++t)
      for (int64_t c = 0; c < 3; ++c)
        for (int64_t p = 0; p < 28 * 28; ++p)
          ASSERT_EQ(got[at++], std::to_integer<int>(tiles->data[(t * 28 * 28 + p) * 3 + c]));
  // Room for the larger picture decoded, resized, cut, and seen as a whole.
  EXPECT_GE((*data)->transformBytes(), (3 + 3) * 61 * 97 + 2 * 3 * first->shape[0] * 28 * 28);
  // The model's tiles have another size.
  EXPECT_FALSE((*data)->decodeTiles(0, plain, 14, 28, got.data()));
}

TEST_F(OriginalShard, IsReadAsUnitsOfItsPictures) {
  const PictureGrid grid{4, 2, 1, 0, 0};
  auto data = Dataset::open({shard()}, grid, transformOf(kinds["units"]));
  ASSERT_TRUE(data) << data.status().message();
  std::vector<int64_t> units;
  for (const char *name : {"units.0", "units.1"})
    units.push_back(find(name)->shape[1] / 8 * (find(name)->shape[2] / 8));
  EXPECT_EQ((*data)->tiles(0), units[0] + units[1]);
  EXPECT_EQ((*data)->squaredTiles(0), units[0] * units[0] + units[1] * units[1]);
  std::vector<float> got(static_cast<size_t>((*data)->tiles(0) * grid.valuesPerUnit()));
  ASSERT_TRUE((*data)->decodePatches(0, plain, got.data()));
  // The second picture's first patch is its upper left corner, channel by channel.
  const StoredTensor *second = find("units.1");
  const float *patch = got.data() + units[0] * grid.valuesPerUnit();
  for (int64_t c = 0; c < 3; ++c)
    for (int64_t y = 0; y < 4; ++y)
      for (int64_t x = 0; x < 4; ++x)
        EXPECT_EQ(*patch++, std::to_integer<int>(second->data[(y * second->shape[2] + x) * 3 + c]));
}

TEST_F(OriginalShard, NamesAPictureThatTheModelTakesNothingOf) {
  Image line;
  line.height = 1;
  line.width = 300;
  line.rgb.assign(900, 7);
  writeFile(shard(), makeTar({{"b.json", R"({"input_ids": [1], "labels": [1], "images": 1})"},
                              {"b.0.png", *encodePng(line)}}));
  auto data = Dataset::open({shard()}, std::nullopt, transformOf(kinds["fixed"]));
  ASSERT_FALSE(data);
  EXPECT_NE(data.status().message().find("s.tar: b, picture 0 is 300 x 1 pixels"),
            std::string::npos)
      << data.status().message();
  // As it is, such a picture has no size that matters.
  EXPECT_TRUE(Dataset::open({shard()}));
}

} // namespace
