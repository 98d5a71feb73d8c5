// Decoded pictures against what Pillow makes of the same bytes, and damaged ones.
#include "runtime/data/pictures/Image.h"
#include "runtime/data/pictures/Preprocess.h"
#include "runtime/support/Safetensors.h"
#include "test/unit/runtime/data/TestTar.h"
#include <cstdlib>
#include <gtest/gtest.h>

using namespace omnibal::rt;
using namespace omnibal::test;

namespace {

Result<Image> decode(const std::string &bytes) {
  return decodeImage({reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()});
}

const std::string folder = OMNIBAL_TEST_DATA "/images/";

TEST(Image, DecodesAsPillowDoes) {
  auto expected = SafetensorsFile::open(folder + "pixels.safetensors");
  ASSERT_TRUE(expected) << expected.status().message();
  ASSERT_EQ((*expected)->tensors().size(), 8u);
  for (const StoredTensor &pixels : (*expected)->tensors()) {
    auto image = decode(readFile(folder + pixels.name));
    ASSERT_TRUE(image) << pixels.name << ": " << image.status().message();
    ASSERT_EQ(image->height, pixels.shape[0]);
    ASSERT_EQ(image->width, pixels.shape[1]);
    // Lossless formats are exact; lossy ones may round differently between library versions.
    bool lossy = pixels.name.ends_with(".jpg") || pixels.name == "lossy.webp";
    int worst = 0;
    for (int64_t i = 0; i < pixels.elements; ++i)
      worst = std::max(worst,
                       std::abs(int(image->rgb[size_t(i)]) - std::to_integer<int>(pixels.data[i])));
    EXPECT_LE(worst, lossy ? 2 : 0) << pixels.name;
  }
}

TEST(Image, BeginningsTellTheSizeOrNothing) {
  for (const char *name :
       {"rgb.png", "palette.png", "color.jpg", "gray.jpg", "lossless.webp", "lossy.webp"}) {
    std::string whole = readFile(folder + name);
    size_t told = 0;
    for (size_t keep = 0; keep <= whole.size(); ++keep)
      if (auto size = imageSize({reinterpret_cast<const uint8_t *>(whole.data()), keep})) {
        EXPECT_EQ(*size, (ImageSize{20, 28})) << name << " cut to " << keep;
        ++told;
      } else {
        EXPECT_EQ(told, 0u) << name << ": " << keep << " bytes tell less than fewer did";
      }
    EXPECT_GT(told, 0u) << name;
  }
}

TEST(Image, NoTruncationIsAccepted) {
  for (const char *name : {"rgb.png", "palette.png", "color.jpg", "lossless.webp", "lossy.webp"}) {
    std::string whole = readFile(folder + name);
    // The last bytes may be padding or trailers without pixels.
    for (size_t keep = 0; keep + 16 < whole.size(); ++keep)
      EXPECT_FALSE(decode(whole.substr(0, keep))) << name << " cut to " << keep;
  }
}

TEST(Image, AnotherSizeIsToldWithoutPixels) {
  for (const char *name : {"rgb.png", "color.jpg", "lossless.webp"}) {
    std::string file = readFile(folder + name);
    std::span bytes(reinterpret_cast<const uint8_t *>(file.data()), file.size());
    auto wanted = decodeImage(bytes, 20, 28), other = decodeImage(bytes, 28, 20);
    ASSERT_TRUE(wanted && other) << name;
    EXPECT_EQ(wanted->rgb.size(), 20u * 28 * 3);
    EXPECT_EQ(other->rgb.size(), 0u);
    EXPECT_EQ(std::pair(other->height, other->width), std::pair(int64_t{20}, int64_t{28}));
  }
}

TEST(Image, FlippedBitsNeverCrash) {
  for (const char *name : {"rgb.png", "color.jpg", "lossless.webp", "lossy.webp"}) {
    std::string whole = readFile(folder + name);
    for (size_t at = 0; at < whole.size(); ++at) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << at % 8));
      auto image = decode(damaged);
      // PNG has a checksum over everything.
      if (std::string(name) == "rgb.png" && image) {
        ADD_FAILURE() << "a PNG with byte " << at << " damaged was accepted";
      }
    }
  }
}

TEST(Image, RefusesOtherFormatsAndHugeClaims) {
  EXPECT_NE(decode("GIF89a").status().message().find("neither PNG"), std::string::npos);
  std::string png = readFile(folder + "rgb.png");
  EXPECT_FALSE(decode(png.substr(0, 8)));
  // 7000 x 7000 pixels, with a checksum that fits: no room is made for what cannot be there.
  std::string header("\x00\x00\x00\x0d"
                     "IHDR\x00\x00\x1b\x58\x00\x00\x1b\x58\x08\x02\x00\x00\x00\x16\xf9\x2c\xd8",
                     25);
  ASSERT_EQ(png.substr(12, 4), "IHDR");
  png.replace(8, header.size(), header);
  EXPECT_NE(decode(png).status().message().find("too short for 7000 x 7000"), std::string::npos)
      << decode(png).status().message();
  EXPECT_EQ(imageSize({reinterpret_cast<const uint8_t *>(png.data()), png.size()})->width, 7000);
}

TEST(Preprocess, ReadsWhatItNeedsAndNamesTheField) {
  auto plain = Preprocess::parse("{}", "p.json");
  ASSERT_TRUE(plain);
  uint8_t pixel[3] = {0, 128, 255};
  float out[3];
  plain->apply(pixel, 1, 1, out);
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_EQ(out[2], 1.0f);
  auto full = Preprocess::parse(
      R"({"rescale_factor":0.5,"image_mean":[1,2,3],"image_std":[2,4,0.5],"do_normalize":true})",
      "p.json");
  ASSERT_TRUE(full) << full.status().message();
  full->apply(pixel, 1, 1, out);
  EXPECT_EQ(out[0], -0.5f);
  EXPECT_EQ(out[1], 15.5f);
  EXPECT_EQ(out[2], 249.0f);
  auto raw = Preprocess::parse(R"({"do_rescale":false,"do_normalize":false,"image_mean":[1,1,1]})",
                               "p.json");
  ASSERT_TRUE(raw);
  raw->apply(pixel, 1, 1, out);
  EXPECT_EQ(out[2], 255.0f);
  for (auto [text, field] : std::initializer_list<std::pair<const char *, const char *>>{
           {"{", "JSON"},
           {"[]", "object"},
           {R"({"rescale_factor":"x"})", "rescale_factor"},
           {R"({"do_normalize":true})", "image_mean"},
           {R"({"image_mean":[1,2],"image_std":[1,1,1]})", "image_mean"},
           {R"({"image_mean":[1,2,3],"image_std":[1,0,1]})", "image_std"},
           {R"({"rescale_factor":1e39})", "rescale_factor"},
           {R"({"image_mean":[0,3,0],"image_std":[1,1,1e-46]})", "image_std"},
           {R"({"do_rescale":1})", "do_rescale"}}) {
    auto bad = Preprocess::parse(text, "p.json");
    ASSERT_FALSE(bad) << text;
    EXPECT_NE(bad.status().message().find(field), std::string::npos) << bad.status().message();
    EXPECT_NE(bad.status().message().find("p.json"), std::string::npos);
  }
}

} // namespace
