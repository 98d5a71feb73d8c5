// The saved folder holds trained values under the source's names and copies everything else.
#include "runtime/checkpoint/ModelFolder.h"
#include "runtime/support/BFloat16.h"
#include "test/support/TemporaryFolder.h"
#include "test/unit/runtime/checkpoint/Ranks.h"
#include <cmath>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>

using namespace omnibal::rt;
using namespace omnibal::test;
namespace fs = std::filesystem;

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
    return saveModelFolder({to}, *source, {one, two}, mine, rank == 0, agree);
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
  EXPECT_FALSE(fs::exists(to + "/reference.json"));
}

TEST(ModelFolder, AnUnknownParameterIsAnError) {
  TemporaryFolder folder;
  auto source = TensorFiles::open(OMNIBAL_TEST_DATA "/tiny-llava");
  ASSERT_TRUE(source);
  Status status = saveModelFolder({folder / "out"}, *source, {"nobody"}, {}, true, agreeAlone);
  ASSERT_FALSE(status);
  EXPECT_NE(status.message().find("nobody"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder / "out/model.safetensors"));
}

/// A source with tensors of several types: "t.*" train, "f.*" are frozen, "n" holds integers.
class Types : public testing::Test {
protected:
  void SetUp() override {
    add("f.b", StoredType::BF16, std::string("\x80\x3f\x01\x00", 4)); // 1 and the smallest number
    add("f.h", StoredType::F16, std::string("\xff\x7b\x01\x80", 4));  // 65504, -2^-24
    add("n", StoredType::I32, std::string("\1\0\0\0\2\0\0\0", 8));
    add("t.b", StoredType::BF16, std::string(4, '\0'));
    add("t.h", StoredType::F16, std::string(4, '\0'));
    add("t.s", StoredType::F32, std::string(8, '\0'));
    writeFile(from + "/config.json",
              R"({"torch_dtype": "bfloat16", "text_config": {"dtype": "bfloat16", "z": 1}})");
    writeFile(from + "/tokenizer.json", "{}");
  }
  void add(const std::string &name, StoredType type, const std::string &bytes) {
    fs::create_directories(from);
    headers.push_back({name, type, {2}});
    data[name] = bytes;
    auto writer = SafetensorsWriter::create(from + "/model.safetensors", headers);
    for (const TensorHeader &header : headers)
      ASSERT_TRUE(writer->append(data[header.name].data(), data[header.name].size()));
    ASSERT_TRUE(writer->finish());
  }
  /// Trains "t.*" to `values` on two ranks.
  TensorFiles save(ModelFolderOptions options) {
    options.folder = to;
    auto source = TensorFiles::open(from);
    auto results = runRanks(2, [&](int rank, const Agreement &agree) {
      std::vector<NamedTensor> mine;
      for (const char *name : {"t.b", "t.h", "t.s"})
        if ((rank == 0) == (name[2] == 'h'))
          mine.push_back({name, {2}, values.data()});
      return saveModelFolder(options, *source, {"t.b", "t.h", "t.s"}, mine, rank == 0, agree,
                             rank == 0 ? &notices : nullptr);
    });
    for (const Status &status : results)
      EXPECT_TRUE(status) << status.message();
    auto saved = TensorFiles::open(to);
    EXPECT_TRUE(saved) << saved.status().message();
    return *std::move(saved);
  }
  static std::vector<float> read(const TensorFiles &files, const char *name) {
    std::vector<float> got(2);
    EXPECT_TRUE(convertTensor(*files.find(name), DType::F32, got.data()));
    return got;
  }
  std::string typesOf(const TensorFiles &files) {
    std::string all;
    for (const std::string &name : files.names())
      all += std::string(storedTypeName(files.find(name)->dtype)) + " ";
    return all;
  }
  /// The names in the folder.
  std::string listing() const {
    std::vector<std::string> found;
    for (const auto &entry : fs::directory_iterator(to))
      found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    std::string all;
    for (const std::string &name : found)
      all += name + " ";
    return all;
  }

  TemporaryFolder folder;
  const std::string from = folder / "from", to = folder / "to";
  std::vector<TensorHeader> headers;
  std::map<std::string, std::string> data;
  std::vector<float> values = {1.01171875f, -3}; // a tie of bfloat16: 1.0078125 or 1.015625
  std::vector<std::string> notices;
};

TEST_F(Types, AreThoseOfTheSourceByDefault) {
  TensorFiles saved = save({});
  EXPECT_EQ(typesOf(saved), "BF16 F16 I32 BF16 F16 F32 ");
  for (const char *name : {"f.b", "f.h", "n"}) {
    const StoredTensor *tensor = saved.find(name);
    EXPECT_EQ(std::string(reinterpret_cast<const char *>(tensor->data), size_t(tensor->bytes)),
              data[name]);
  }
  EXPECT_EQ(read(saved, "t.b"), (std::vector<float>{1.015625f, -3})); // to even
  EXPECT_EQ(read(saved, "t.h"), values);
  EXPECT_EQ(read(saved, "t.s"), values);
  EXPECT_EQ(readFile(to + "/config.json"), readFile(from + "/config.json"));
  EXPECT_TRUE(notices.empty());
}

TEST_F(Types, AreOneForAllWhereAsked) {
  TensorFiles saved = save({.type = StoredType::F32});
  EXPECT_EQ(typesOf(saved), "F32 F32 I32 F32 F32 F32 ");
  EXPECT_EQ(read(saved, "t.b"), values);
  EXPECT_EQ(read(saved, "f.h"), (std::vector<float>{65504, -0x1p-24f}));
  EXPECT_EQ(read(saved, "f.b"), (std::vector<float>{1, 0x1p-133f}));
  auto config = nlohmann::json::parse(readFile(to + "/config.json"));
  EXPECT_EQ(config, nlohmann::json::parse(
                        R"({"torch_dtype":"float32","text_config":{"dtype":"float32","z":1}})"));
  saved = save({.type = StoredType::BF16});
  EXPECT_EQ(typesOf(saved), "BF16 BF16 I32 BF16 BF16 BF16 ");
  EXPECT_EQ(read(saved, "f.h"), (std::vector<float>{65536, -0x1p-24f}));
}

TEST_F(Types, WhatFloat16CannotHoldIsFloat32) {
  values[1] = -1e5;
  TensorFiles saved = save({});
  EXPECT_EQ(typesOf(saved), "BF16 F16 I32 BF16 F32 F32 ");
  EXPECT_EQ(read(saved, "t.h"), values);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("\"t.h\" holds -100000.0"), std::string::npos) << notices[0];
  EXPECT_NE(readFile(to + "/config.json").find("float32"), std::string::npos);
  saved = save({.type = StoredType::F16});
  EXPECT_EQ(typesOf(saved), "F32 F32 I32 F32 F32 F32 ");
  values[1] = INFINITY; // was one before
  notices.clear();
  saved = save({.type = StoredType::F16});
  EXPECT_EQ(typesOf(saved), "F16 F16 I32 F16 F16 F16 ");
  EXPECT_TRUE(notices.empty());
}

TEST_F(Types, ShardsReplaceEachOtherAsAWhole) {
  const std::string beside = "config.json ", after = "tokenizer.json ";
  const std::string index = "model.safetensors.index.json ";
  auto shards = [](int count) {
    std::string all;
    for (int i = 1; i <= count; ++i)
      all +=
          "model-0000" + std::to_string(i) + "-of-0000" + std::to_string(count) + ".safetensors ";
    return all;
  };
  save({.shardBytes = 32}); // exactly all
  EXPECT_EQ(listing(), beside + "model.safetensors " + after);
  TensorFiles saved = save({.shardBytes = 31});
  EXPECT_EQ(listing(), beside + shards(2) + index + after);
  EXPECT_EQ(typesOf(saved), "BF16 F16 I32 BF16 F16 F32 ");
  EXPECT_EQ(read(saved, "t.s"), values);
  auto json = nlohmann::json::parse(readFile(to + "/model.safetensors.index.json"));
  EXPECT_EQ(json["metadata"]["total_size"], 32);
  EXPECT_EQ(json["weight_map"]["f.b"], "model-00001-of-00002.safetensors");
  EXPECT_EQ(json["weight_map"]["t.s"], "model-00002-of-00002.safetensors");
  values = {4, 5};
  saved = save({.shardBytes = 31}); // onto files of the same names
  EXPECT_EQ(listing(), beside + shards(2) + index + after);
  EXPECT_EQ(read(saved, "t.b"), values);
  writeFile(to + "/model-00007-of-00009.safetensors.incomplete", "of a killed run");
  saved = save({.shardBytes = 1}); // a tensor each
  EXPECT_EQ(listing(), beside + shards(6) + index + after);
  saved = save({});
  EXPECT_EQ(listing(), beside + "model.safetensors " + after);
  EXPECT_EQ(read(saved, "t.h"), values);
}

TEST_F(Types, AFailureLeavesTheOldModel) {
  TensorFiles before = save({.shardBytes = 31});
  const std::string old = listing();
  fs::create_directories(to + "/model-00003-of-00006.safetensors.incomplete/x"); // in the way
  auto source = TensorFiles::open(from);
  Status status = saveModelFolder({to, {}, 1}, *source, {"t.s"}, {{"t.s", {2}, values.data()}},
                                  true, agreeAlone);
  ASSERT_FALSE(status);
  EXPECT_NE(status.message().find("model-00003-of-00006"), std::string::npos) << status.message();
  fs::remove_all(to + "/model-00003-of-00006.safetensors.incomplete");
  EXPECT_EQ(listing(), old);
}

TEST_F(Types, CompanionsComeThroughTheCacheOnly) {
  const fs::path root = folder / "models--org--name", snapshot = root / "snapshots/0123";
  fs::create_directories(snapshot / "additional_chat_templates");
  fs::create_directories(root / "blobs");
  int blob = 0;
  auto link = [&](const std::string &name, const std::string &contents) {
    const std::string hash = "h" + std::to_string(blob++);
    writeFile(root / "blobs" / hash, contents);
    fs::create_symlink((name.find('/') == name.npos ? "../../blobs/" : "../../../blobs/") + hash,
                       snapshot / name);
  };
  link("model.safetensors", readFile(from + "/model.safetensors"));
  const std::vector<std::string> copied = {"config.json",
                                           "generation_config.json",
                                           "tokenizer.json",
                                           "tokenizer.model",
                                           "tokenizer_config.json",
                                           "preprocessor_config.json",
                                           "merges.txt",
                                           "vocab.json",
                                           "chat_template.jinja",
                                           "special_tokens_map.json",
                                           "modeling_x.py",
                                           "x.tiktoken",
                                           "added_tokens.json",
                                           "video_preprocessor_config.json",
                                           "additional_chat_templates/rag.jinja"};
  for (const std::string &name : copied)
    link(name, "{\"is\": \"" + name + "\"}");
  for (const char *name : {"README.md", "model.onnx", "pytorch_model.bin"})
    link(name, "x");
  auto source = TensorFiles::open(snapshot);
  ASSERT_TRUE(source) << source.status().message();
  ASSERT_TRUE(checkModelFolderSource(*source));
  ASSERT_TRUE(saveModelFolder({to}, *source, {}, {}, true, agreeAlone));
  for (const std::string &name : copied) {
    EXPECT_EQ(readFile(to + "/" + name), "{\"is\": \"" + name + "\"}");
    EXPECT_FALSE(fs::is_symlink(to + "/" + name));
  }
  EXPECT_EQ(std::distance(fs::recursive_directory_iterator(to), {}),
            std::ptrdiff_t(copied.size()) + 2);
  // What is not the model's does not get into the saved folder, and the user learns it early.
  writeFile(folder / "secret", "secret");
  fs::remove(snapshot / "merges.txt");
  fs::create_symlink(folder / "secret", snapshot / "merges.txt");
  for (const Status &status :
       {checkModelFolderSource(*source),
        saveModelFolder({folder / "other"}, *source, {}, {}, true, agreeAlone)}) {
    ASSERT_FALSE(status);
    EXPECT_NE(status.message().find("merges.txt leads to"), std::string::npos) << status.message();
  }
  EXPECT_FALSE(fs::exists(folder / "other/model.safetensors"));
}

} // namespace
