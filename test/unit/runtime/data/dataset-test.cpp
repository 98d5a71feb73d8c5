// Samples against what PyTorch was given, and every kind of damage.
#include "runtime/data/Dataset.h"
#include "runtime/data/TarIndex.h"
#include "runtime/support/Safetensors.h"
#include "test/unit/runtime/data/TestTar.h"
#include <functional>
#include <gtest/gtest.h>

using namespace omnibal::rt;
using namespace omnibal::test;

namespace {

const std::string model = OMNIBAL_TEST_DATA "/tiny-internvl/";

TEST(Dataset, GivesPyTorchItsInputsBitByBit) {
  auto data = Dataset::open({model + "data-000000.tar"});
  ASSERT_TRUE(data) << data.status().message();
  EXPECT_EQ((*data)->size(), 64);
  auto preprocess = Preprocess::read(model + "preprocessor_config.json");
  ASSERT_TRUE(preprocess) << preprocess.status().message();
  auto expected = SafetensorsFile::open(model + "forward.safetensors");
  ASSERT_TRUE(expected);
  for (int64_t i = 0; i < 4; ++i) {
    std::string key = (*data)->key(i);
    EXPECT_EQ((*data)->find(key), i);
    auto sample = (*data)->sample(i);
    ASSERT_TRUE(sample) << sample.status().message();
    const StoredTensor *ids = (*expected)->find(key + ".input_ids");
    ASSERT_NE(ids, nullptr);
    std::vector<int32_t> wanted(size_t(ids->elements));
    ASSERT_TRUE(convertTensor(*ids, DType::I32, wanted.data()));
    EXPECT_EQ(sample->inputIds, wanted);
    const StoredTensor *pixels = (*expected)->find(key + ".pixel_values");
    ASSERT_EQ(pixels ? pixels->shape[0] : 0, sample->tiles);
    if (!pixels)
      continue;
    std::vector<float> got(size_t(pixels->elements)), want(size_t(pixels -> elements));
    ASSERT_TRUE(convertTensor(*pixels, DType::F32, want.data()));
    ASSERT_TRUE((*data)->decodeTiles(i, *preprocess, 28, 28, got.data()));
    EXPECT_EQ(got, want) << key;
  }
  EXPECT_EQ((*data)->find("nobody"), -1);
}

/// As the processor of test/data/tiny-qwen2_5_vl cuts pictures.
const PictureGrid grid{4, 2, 2, 16, 0};

TEST(Dataset, GivesPyTorchItsPatchesBitByBit) {
  const std::string fixture = OMNIBAL_TEST_DATA "/tiny-qwen2_5_vl/";
  auto data = Dataset::open({fixture + "data-000000.tar"}, grid);
  ASSERT_TRUE(data) << data.status().message();
  auto preprocess = Preprocess::read(fixture + "preprocessor_config.json");
  ASSERT_TRUE(preprocess) << preprocess.status().message();
  auto expected = SafetensorsFile::open(fixture + "forward.safetensors");
  ASSERT_TRUE(expected);
  const int64_t pictures[] = {1, 2, 0, 3}; // images of each sample's KEY.json
  SampleRules rules;
  rules.imageTokenId = 4;
  rules.tokensPerTile = 1;
  for (int64_t i = 0; i < 4; ++i) {
    std::string key = (*data)->key(i);
    const StoredTensor *pixels = (*expected)->find(key + ".pixel_values");
    ASSERT_NE(pixels, nullptr);
    EXPECT_EQ((*data)->tiles(i), pixels->shape[0] / grid.patchesPerUnit());
    std::vector<float> got(size_t(pixels->elements)), want(size_t(pixels -> elements));
    ASSERT_TRUE(convertTensor(*pixels, DType::F32, want.data()));
    ASSERT_TRUE((*data)->decodePatches(i, *preprocess, got.data()));
    EXPECT_EQ(got, want) << key;
    auto sample = (*data)->sample(i);
    ASSERT_TRUE(sample) << sample.status().message();
    EXPECT_EQ(int64_t(sample->pictures.size()), pictures[i]);
    EXPECT_EQ(sample->tiles, (*data)->tiles(i));
  }
  for (int64_t i = 0; i < (*data)->size(); ++i) {
    Status status = checkSample(*(*data)->sample(i), rules);
    EXPECT_TRUE(status) << status.message();
  }
  // A run that is one short, and one that is too long.
  Sample sample = *(*data)->sample(1);
  auto first = std::find(sample.inputIds.begin(), sample.inputIds.end(), 4);
  *first = 7;
  std::string message = checkSample(sample, rules).message();
  EXPECT_NE(message.find("\"sample-0001\""), std::string::npos) << message;
  EXPECT_NE(message.find("picture 0 has 3 x 2 = 6 units"), std::string::npos) << message;
}

/// A sample with one good picture, to be damaged one field at a time.
struct Parts {
  std::string json = R"({"input_ids":[1,4,4,2],"labels":[-100,-100,5,2],"images":1,)"
                     R"("token_type_ids":[0,1,1,0],"source":"x"})";
  std::string picture = readFile(OMNIBAL_TEST_DATA "/images/rgb.png");
};

struct Outcome {
  Status opened, sample, tiles, rules;
};

/// What goes wrong with a shard of these members.
Outcome outcomeOf(const std::string &tar) {
  TemporaryFolder folder;
  writeFile(folder / "shard-000000.tar", tar);
  Outcome out;
  auto data = Dataset::open({folder / "shard-000000.tar"});
  out.opened = data.status();
  if (!data)
    return out;
  auto sample = (*data)->sample(0);
  out.sample = sample.status();
  if (!sample)
    return out;
  SampleRules rules;
  rules.vocabulary = 10;
  rules.imageTokenId = 4;
  rules.tokensPerTile = 2;
  rules.tilesCap = 1;
  rules.tokensCap = 4;
  rules.tokenInputs = {"token_type_ids"};
  out.rules = checkSample(*sample, rules);
  std::vector<float> pixels(size_t(std::max<int64_t>(1, (*data)->tiles(0)) * 3 * 20 * 28));
  out.tiles = (*data)->decodeTiles(0, *Preprocess::parse("{}", ""), 20, 28, pixels.data());
  return out;
}

Outcome outcomeOf(const std::function<void(Parts &)> &damage) {
  Parts parts;
  damage(parts);
  return outcomeOf(makeTar({{"k.json", parts.json}, {"k.0.png", parts.picture}}));
}

void expectError(const Status &status, std::initializer_list<const char *> words) {
  ASSERT_FALSE(status);
  for (const char *word : words)
    EXPECT_NE(status.message().find(word), std::string::npos)
        << "no \"" << word << "\" in: " << status.message();
}

TEST(Dataset, AGoodShardIsGood) {
  Outcome good = outcomeOf([](Parts &) {});
  EXPECT_TRUE(good.opened && good.sample && good.tiles && good.rules)
      << good.opened.message() << good.sample.message() << good.tiles.message()
      << good.rules.message();
}

TEST(Dataset, NamesTheDamagedField) {
  auto json = [](const std::string &text) {
    return outcomeOf([&](Parts &p) { p.json = text; }).sample;
  };
  expectError(json("{"), {"shard-000000.tar", "k.json", "JSON"});
  expectError(json("[]"), {"k.json", "object"});
  expectError(json(R"({"labels":[1],"images":1})"), {"k.json", "input_ids", "missing"});
  expectError(json(R"({"input_ids":[1],"images":1})"), {"k.json", "labels", "missing"});
  expectError(json(R"({"input_ids":[],"labels":[],"images":1})"), {"input_ids", "empty"});
  expectError(json(R"({"input_ids":[1,2],"labels":[1],"images":1})"), {"labels", "1 entries"});
  expectError(json(R"({"input_ids":[1,2.5],"labels":[1,2],"images":1})"), {"input_ids", "[1]"});
  expectError(json(R"({"input_ids":[1,3000000000],"labels":[1,2],"images":1})"), {"[1]"});
  expectError(json(R"({"input_ids":[1],"labels":["a"],"images":1})"), {"labels", "[0]"});
  expectError(json(R"({"input_ids":[1],"labels":[1],"images":-1})"), {"images"});
  expectError(json(R"({"input_ids":[1],"labels":[1],"images":2})"),
              {"images", "is 2", "1 picture"});
  expectError(json(R"({"input_ids":[1],"input_ids":[1],"labels":[1],"images":1})"),
              {"input_ids", "twice"});
}

TEST(Dataset, ChecksWhatTheProgramDemands) {
  auto rules = [](const std::string &text) {
    return outcomeOf([&](Parts &p) { p.json = text; }).rules;
  };
  const std::string tail = R"(,"images":1,"token_type_ids":[0,1,1,0]})";
  expectError(rules(R"({"input_ids":[1,4,4,10],"labels":[-100,-100,5,2])" + tail),
              {"\"k\"", "input_ids", "[3] is 10", "vocabulary of 10"});
  expectError(rules(R"({"input_ids":[1,4,4,2],"labels":[-100,-100,11,2])" + tail),
              {"labels", "[2] is 11"});
  expectError(rules(R"({"input_ids":[1,4,4,2],"labels":[-100,-99,5,2])" + tail),
              {"labels", "[1] is -99"});
  expectError(rules(R"({"input_ids":[1,4,3,2],"labels":[-100,-100,5,2])" + tail),
              {"image token 4 1 times", "1 tiles", "need 2"});
  expectError(rules(R"({"input_ids":[1,4,4,2],"labels":[-100,-100,5,2],"images":1})"),
              {"token_type_ids", "missing"});
  expectError(rules(R"({"input_ids":[1,4,4,2,2],"labels":[1,1,1,1,1],"images":1,)"
                    R"("token_type_ids":[0,1,1,0,0]})"),
              {"5 tokens", "--tokens"});
  const auto prefix = [](std::vector<int32_t> types, std::vector<int32_t> labels = {}) {
    Sample sample;
    sample.key = "k";
    sample.inputIds = std::vector<int32_t>(types.size(), 1);
    sample.labels = labels.empty() ? std::vector<int32_t>(types.size(), ignoredLabel) : labels;
    SampleRules demanded;
    demanded.tokenInputs = {"token_type_ids"};
    sample.tokenInputs["token_type_ids"] = std::move(types);
    EXPECT_TRUE(checkSample(sample, demanded)); // of other programs any types are good
    demanded.prefixInputs = demanded.tokenInputs;
    return checkSample(sample, demanded);
  };
  for (const std::vector<int32_t> &good :
       {std::vector<int32_t>{0, 0, 1, 1}, {0, 1}, {0, 0}, {1, 1}, {0}})
    EXPECT_TRUE(prefix(good)) << prefix(good).message();
  EXPECT_TRUE(prefix({0, 0, 1, 1}, {5, -100, 5, 5})); // nothing predicts the first token
  expectError(prefix({0, 0, 1, 1}, {-100, 5, 5, 5}),
              {"token_type_ids", "[1] is 0 where labels is 5"});
  expectError(prefix({0, 0, 0}, {-100, -100, 5}), {"[2] is 0 where labels is 5"});
  expectError(prefix({0, 1, 1, 0}), {"\"k\"", "token_type_ids", "[3] is 0 after a 1", "prompt"});
  expectError(prefix({1, 0}), {"[1] is 0 after a 1"});
  expectError(prefix({0, 0, 2}), {"[2] is 2, neither 0 nor 1"});
  expectError(prefix({-1, 0, 1}), {"[0] is -1, neither 0 nor 1"});
  Sample longer;
  longer.key = "k";
  longer.inputIds = longer.labels = {1, 1, 1};
  SampleRules positions;
  positions.positions = 3;
  EXPECT_TRUE(checkSample(longer, positions));
  positions.positions = 2;
  expectError(checkSample(longer, positions), {"\"k\"", "3 tokens", "positions has 2"});
  Sample many;
  many.key = "k";
  many.tiles = 2;
  many.inputIds = many.labels = {1};
  SampleRules caps;
  caps.tilesCap = 1;
  expectError(checkSample(many, caps), {"2 tiles", "--tiles"});
}

TEST(Dataset, LongTextsAreShortenedWhereverTheyAreCut) {
  const std::string pattern = R"(a\"b\\\\c\u00e9\ud83d\ude00)"
                              "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"
                              R"(],{\"x\":1)";
  std::string text;
  while (text.size() < 150'000) // more than a block is read at a time
    text += pattern;
  for (size_t shift = 0; shift < 60; ++shift) {
    TemporaryFolder folder;
    writeFile(folder / "s.tar",
              makeTar({{"k.json", R"({"before":[")" + std::string(shift, 'z') + text +
                                      R"(\""],"input_ids":[1,2,3],"labels":[-100,2,3],"after":")" +
                                      text + R"("})"}}));
    auto data = Dataset::open({folder / "s.tar"});
    ASSERT_TRUE(data);
    auto sample = (*data)->sample(0);
    ASSERT_TRUE(sample) << shift << ": " << sample.status().message();
    EXPECT_EQ(sample->inputIds, (std::vector<int32_t>{1, 2, 3}));
    EXPECT_EQ(sample->labels, (std::vector<int32_t>{-100, 2, 3}));
  }
}

TEST(Dataset, KeepsWhatIsNeeded) {
  TemporaryFolder folder;
  writeFile(folder / "s.tar",
            makeTar({{"k.json", R"({"other":[7,8,9],"input_ids":[1,2,3],"labels":[1,2,3],)"
                                R"("token_type_ids":[0,0,1],"nested":{"input_ids":[5]}})"}}));
  auto data = Dataset::open({folder / "s.tar"});
  ASSERT_TRUE(data);
  EXPECT_EQ((*data)->sample(0)->tokenInputs.size(), 2u);
  const std::vector<std::string> names = {"token_type_ids"};
  auto sample = (*data)->sample(0, {&names, 3});
  ASSERT_TRUE(sample) << sample.status().message();
  ASSERT_EQ(sample->tokenInputs.size(), 1u);
  EXPECT_EQ(sample->tokenInputs["token_type_ids"], (std::vector<int32_t>{0, 0, 1}));
  expectError((*data)->sample(0, {&names, 2}).status(), {"\"k\" has 3 tokens", "cap of 2"});
}

TEST(Dataset, NamesTheDamagedPicture) {
  expectError(outcomeOf([](Parts &p) { p.picture.resize(60); }).tiles,
              {"shard-000000.tar", "k, picture 0", "PNG"});
  expectError(outcomeOf([](Parts &p) { p.picture[50] ^= 1; }).tiles, {"k, picture 0", "corrupt"});
  expectError(outcomeOf([](Parts &p) {
                p.picture = readFile(OMNIBAL_TEST_DATA "/images/color.jpg").substr(0, 500);
              }).tiles,
              {"picture 0", "JPEG"});
  TemporaryFolder folder;
  writeFile(folder / "s.tar", makeTar({{"k.json", Parts().json}, {"k.0.png", Parts().picture}}));
  auto data = Dataset::open({folder / "s.tar"});
  ASSERT_TRUE(data);
  std::vector<float> pixels(3 * 14 * 14);
  expectError((*data)->decodeTiles(0, *Preprocess::parse("{}", ""), 14, 14, pixels.data()),
              {"28 x 20", "14 x 14"});
}

TEST(Dataset, NamesThePictureWhoseSizeDoesNotFit) {
  TemporaryFolder folder;
  Parts p;
  auto openWith = [&](const std::string &picture, const PictureGrid &g) {
    writeFile(folder / "s.tar", makeTar({{"j.json", p.json},
                                         {"j.0.png", p.picture},
                                         {"k.json", p.json},
                                         {"k.0.png", picture}}));
    return Dataset::open({folder / "s.tar"}, g);
  };
  const PictureGrid fits{2, 2, 1, 0, 0}; // of pictures of 28 x 20 pixels
  auto good = openWith(p.picture, fits);
  ASSERT_TRUE(good) << good.status().message();
  EXPECT_EQ((*good)->tiles(1), 5 * 7);
  expectError(openWith(p.picture, {4, 2, 1, 0, 0}).status(),
              {"s.tar", "j, picture 0", "28 x 20 pixels", "multiples of 8", "resize"});
  expectError(openWith(p.picture.substr(0, 20), fits).status(), {"s.tar", "k, picture 0", "PNG"});
  expectError(openWith("", fits).status(), {"s.tar", "k, picture 0", "neither PNG"});
  // Behind the header is damage that only decoding finds.
  auto damaged = openWith(p.picture.substr(0, 70), fits);
  ASSERT_TRUE(damaged) << damaged.status().message();
  std::vector<float> pixels(size_t(35 * fits.valuesPerUnit()));
  EXPECT_TRUE((*damaged)->decodePatches(0, *Preprocess::parse("{}", ""), pixels.data()));
  expectError((*damaged)->decodePatches(1, *Preprocess::parse("{}", ""), pixels.data()),
              {"s.tar", "k, picture 0", "PNG"});
}

TEST(Dataset, FindsTheSizeBehindALongHeader) {
  // A JPEG whose size comes after comments of 200 kB, which no first read reaches.
  std::string jpeg = readFile(OMNIBAL_TEST_DATA "/images/color.jpg");
  std::string comment = std::string("\xff\xfe\xff\xff", 4) + std::string(0xffff - 2, 'x');
  jpeg.insert(2, comment + comment + comment);
  TemporaryFolder folder;
  writeFile(folder / "s.tar", makeTar({{"k.json", Parts().json}, {"k.0.jpg", jpeg}}));
  auto data = Dataset::open({folder / "s.tar"}, PictureGrid{2, 2, 1, 0, 0});
  ASSERT_TRUE(data) << data.status().message();
  EXPECT_EQ((*data)->sample(0)->pictures, (std::vector<PictureUnits>{{5, 7}}));
}

TEST(Dataset, NamesMissingAndDoubleMembers) {
  Parts p;
  expectError(outcomeOf(makeTar({{"k.json", p.json}})).sample, {"images", "0 pictures"});
  expectError(outcomeOf(makeTar({{"k.json", p.json}, {"k.1.png", p.picture}})).opened,
              {"k.0", "missing"});
  expectError(outcomeOf(makeTar({{"k.0.png", p.picture}})).opened, {"k.json", "missing"});
  expectError(outcomeOf(makeTar({{"k.json", p.json}, {"k.json", p.json}})).opened, {"twice"});
  expectError(outcomeOf(makeTar({{"k.json", p.json}, {"k.0.png", "a"}, {"k.0.jpg", "b"}})).opened,
              {"k.0.jpg", "twice"});
  expectError(outcomeOf(makeTar({{"readme.txt", "x"}})).opened, {"no sample"});
  TemporaryFolder folder;
  writeFile(folder / "a.tar", makeTar({{"k.json", p.json}, {"k.0.png", p.picture}}));
  writeFile(folder / "b.tar", makeTar({{"k.json", p.json}, {"k.0.png", p.picture}}));
  expectError(Dataset::open({folder.path}).status(), {"a.tar", "b.tar", "unique"});
  expectError(Dataset::open({folder / "c.tar"}).status(), {"c.tar"});
}

TEST(Dataset, SeveralShardsKeepTheirOrder) {
  Parts p;
  TemporaryFolder folder;
  writeFile(folder / "s-1.tar", makeTar({{"c.json", p.json}, {"c.0.png", p.picture}}));
  writeFile(folder / "s-0.tar", makeTar({{"b.json", p.json},
                                         {"./", ""},
                                         {"b.0.png", p.picture},
                                         {"./a.x.json", p.json}, // as `tar -cf FILE .` names it
                                         {"a.x.0.png", p.picture}}));
  auto data = Dataset::open({folder.path});
  ASSERT_TRUE(data) << data.status().message();
  ASSERT_EQ((*data)->size(), 3);
  EXPECT_EQ((*data)->key(0), "b");
  EXPECT_EQ((*data)->key(1), "a.x");
  EXPECT_EQ((*data)->key(2), "c");
  EXPECT_TRUE((*data)->sample(1));
  EXPECT_EQ((*data)->sample(0)->tokenInputs.at("token_type_ids"),
            (std::vector<int32_t>{0, 1, 1, 0}));
}

TEST(TarIndex, NoTruncationIsAccepted) {
  std::string whole = readFile(model + "data-000000.tar");
  TemporaryFolder folder;
  // Python pads the archive with zeros to 10 KiB; the first block of them is the marker.
  auto members = indexTar(model + "data-000000.tar");
  ASSERT_TRUE(members);
  size_t end = size_t(members->back().offset + (members->back().bytes + 511) / 512 * 512);
  for (size_t keep = 0; keep < end + 512; keep += keep < 4096 ? 256 : 4608) {
    writeFile(folder / "t.tar", whole.substr(0, keep));
    auto cut = indexTar(folder / "t.tar");
    EXPECT_FALSE(cut) << keep;
    if (!cut)
      EXPECT_NE(cut.status().message().find("t.tar"), std::string::npos);
  }
  writeFile(folder / "t.tar", whole.substr(0, end));
  expectError(indexTar(folder / "t.tar").status(), {"end-of-archive"});
}

TEST(TarIndex, OffsetsAreThoseOfTheContents) {
  // A name of almost the full length of a header, and one that is not ASCII.
  std::string longName = std::string(90, 'd') + ".json";
  TemporaryFolder folder;
  writeFile(folder / "t.tar", makeTar({{longName, "hello"}, {"b\xc3\xa4.json", "world!"}}));
  auto members = indexTar(folder / "t.tar");
  ASSERT_TRUE(members) << members.status().message();
  std::string whole = readFile(folder / "t.tar");
  ASSERT_EQ(members->size(), 2u);
  EXPECT_EQ(whole.substr(size_t((*members)[0].offset), size_t((*members)[0].bytes)), "hello");
  EXPECT_EQ(whole.substr(size_t((*members)[1].offset), size_t((*members)[1].bytes)), "world!");
  EXPECT_EQ((*members)[1].name, "b\xc3\xa4.json");
}

TEST(TarIndex, RefusesLinksAndCompression) {
  TemporaryFolder folder;
  writeFile(folder / "t.tar", makeTar({{"k.json", ""}}, true, '2'));
  expectError(indexTar(folder / "t.tar").status(), {"k.json", "link"});
  writeFile(folder / "t.tar", "\x1f\x8b\x08 no tar at all");
  expectError(indexTar(folder / "t.tar").status(), {"plain tar"});
}

} // namespace
