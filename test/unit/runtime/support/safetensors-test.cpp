// The reader against files of the Python library and against every rule of the format; the writer
// against bytes set down by hand.
#include "runtime/support/BFloat16.h"
#include "runtime/support/Safetensors.h"
#include "test/unit/runtime/data/TestTar.h"
#include <bit>
#include <cmath>
#include <csignal>
#include <gtest/gtest.h>
#include <sys/resource.h>

using namespace omnibal::rt;
using namespace omnibal::test;

namespace {

std::string fileOf(const std::string &header, const std::string &data) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i)
    bytes[size_t(i)] = static_cast<char>(header.size() >> (8 * i));
  return bytes + header + data;
}

/// The error of reading these bytes ("" if they are accepted).
std::string errorOf(const std::string &bytes) {
  TemporaryFolder folder;
  writeFile(folder / "x.safetensors", bytes);
  auto file = SafetensorsFile::open(folder / "x.safetensors");
  if (file)
    return "";
  EXPECT_NE(file.status().message().find("x.safetensors"), std::string::npos);
  return file.status().message();
}

TEST(Safetensors, ReadsWhatPythonWrote) {
  auto file = SafetensorsFile::open(OMNIBAL_TEST_DATA "/tiny-internvl/forward.safetensors");
  ASSERT_TRUE(file) << file.status().message();
  EXPECT_EQ((*file)->tensors().size(), 15u);
  const StoredTensor *ids = (*file)->find("sample-0000.input_ids");
  ASSERT_NE(ids, nullptr);
  EXPECT_EQ(ids->dtype, StoredType::I64);
  EXPECT_EQ(ids->shape, (std::vector<int64_t>{1, 23}));
  std::vector<int32_t> values(23);
  ASSERT_TRUE(convertTensor(*ids, DType::I32, values.data()));
  EXPECT_EQ(values[0], 1); // <bos>
  EXPECT_EQ((*file)->findAt(ids->fileOffset, ids->bytes), ids);
  EXPECT_EQ((*file)->findAt(ids->fileOffset, ids->bytes - 8), nullptr);
  EXPECT_EQ((*file)->find("nothing"), nullptr);
}

TEST(Safetensors, RefusesEveryBrokenRule) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  std::string data(8, 'x');
  EXPECT_EQ(errorOf(fileOf(good, data)), "");
  EXPECT_EQ(errorOf(fileOf("{}", "")), "");
  struct {
    std::string bytes, message;
  } cases[] = {
      {"", "only 0 bytes"},
      {"1234567", "only 7 bytes"},
      {fileOf(good, data).substr(0, 30), "truncated"},
      {fileOf(good, data.substr(1)), "leave the file's"},
      {fileOf(good, data + "y"), "the file holds 9"},
      {std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10), "at most 100 MB"},
      {fileOf(" " + good, data), "does not start with '{'"},
      {fileOf("[]", ""), "does not start with '{'"},
      {fileOf("{\"a\":", ""), "not valid JSON"},
      {fileOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
              R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
              data),
       "occurs twice"},
      {fileOf(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", data), "hole"},
      {fileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
              R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
              data),
       "overlaps"},
      {fileOf(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", data), "need 12 bytes"},
      {fileOf(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})",
              data),
       "overflows"},
      {fileOf(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", data), "dimension"},
      {fileOf(R"({"a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})", data), "dimension"},
      {fileOf(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", data), "leave"},
      {fileOf(R"({"a":{"dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]}})", data), "F8_E4M3"},
      {fileOf(R"({"a":{"dtype":"F32","shape":[2]}})", data), "exactly dtype"},
      {fileOf(R"({"a":7})", data), "exactly dtype"},
      {fileOf(R"({"__metadata__":{"x":1}})", ""), "not a string"},
  };
  for (const auto &c : cases)
    EXPECT_NE(errorOf(c.bytes).find(c.message), std::string::npos)
        << "expected \"" << c.message << "\", got \"" << errorOf(c.bytes) << "\"";
}

TEST(Safetensors, NoTruncationOfARealFileIsAccepted) {
  std::string whole = readFile(OMNIBAL_TEST_DATA "/tiny-internvl/forward.safetensors");
  for (size_t keep = 0; keep < whole.size(); keep += 1 + keep / 7)
    EXPECT_NE(errorOf(whole.substr(0, keep)), "") << keep;
}

TEST(Safetensors, ConvertsTypes) {
  // F16: 1, -2, 2^-24 (the smallest subnormal), infinity; BF16: 1, -3
  std::string data("\x00\x3c\x00\xc0\x01\x00\x00\x7c\x80\x3f\x40\xc0\x01\x00\xff\x07", 16);
  std::string bytes = fileOf(R"({"h":{"dtype":"F16","shape":[4],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]},)"
                             R"("o":{"dtype":"BOOL","shape":[2],"data_offsets":[12,14]},)"
                             R"("i":{"dtype":"I8","shape":[2],"data_offsets":[14,16]}})",
                             data);
  auto file = SafetensorsFile::view(std::as_bytes(std::span(bytes)), "memory");
  ASSERT_TRUE(file) << file.status().message();
  float out[4];
  ASSERT_TRUE(convertTensor(*(*file)->find("h"), DType::F32, out));
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[1], -2);
  EXPECT_EQ(out[2], std::ldexp(1.0f, -24));
  EXPECT_TRUE(std::isinf(out[3]));
  ASSERT_TRUE(convertTensor(*(*file)->find("b"), DType::F32, out));
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[1], -3);
  int64_t integers[2];
  ASSERT_TRUE(convertTensor(*(*file)->find("i"), DType::I64, integers));
  EXPECT_EQ(integers[0], -1);
  EXPECT_EQ(integers[1], 7);
  bool flags[2];
  ASSERT_TRUE(convertTensor(*(*file)->find("o"), DType::Bool, flags));
  EXPECT_TRUE(flags[0]);
  EXPECT_FALSE(flags[1]);
  EXPECT_FALSE(convertTensor(*(*file)->find("h"), DType::I32, integers)); // would lose fractions
  EXPECT_FALSE(convertTensor(*(*file)->find("i"), DType::Bool, flags));   // -1 is no boolean
}

TEST(Safetensors, RoundsToBFloat16) {
  // Middles go to even, what lies beside them to its side; a float64 is rounded once.
  double middle = 1 + std::ldexp(1, -8), odd = 1 + 3 * std::ldexp(1, -8);
  double values[] = {
      1,        middle, std::nextafter(middle, 2), odd, std::nextafter(odd, 1), -middle, 3.4e38,
      INFINITY, NAN};
  uint16_t wanted[] = {0x3f80, 0x3f80, 0x3f81, 0x3f82, 0x3f81, 0xbf80, 0x7f80, 0x7f80};
  std::string bytes = fileOf(R"({"d":{"dtype":"F64","shape":[9],"data_offsets":[0,72]}})",
                             std::string(reinterpret_cast<char *>(values), sizeof values));
  auto file = SafetensorsFile::view(std::as_bytes(std::span(bytes)), "memory");
  ASSERT_TRUE(file) << file.status().message();
  BFloat16 out[9];
  ASSERT_TRUE(convertTensor(*(*file)->find("d"), DType::BF16, out));
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(out[i].bits, wanted[i]) << values[i];
  EXPECT_TRUE(std::isnan(out[8].toFloat()));
}

/// Every float16, the middle between it and the next, and the nearest numbers around both.
std::vector<double> aroundHalves() {
  std::vector<double> values;
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const double here = std::bit_cast<_Float16>(uint16_t(bits));
    const double next = bits == 0x7bff ? 65536 : std::bit_cast<_Float16>(uint16_t(bits + 1));
    for (double value : {here, (here + next) / 2})
      for (double near : {value, std::nextafter(value, 1e9), std::nextafter(value, -1e9)})
        values.insert(values.end(), {near, -near});
  }
  for (double value : {1e5, 1e300, 1e-300, HUGE_VAL, 65519.999, 65520.0, 65535.0})
    values.insert(values.end(), {value, -value});
  return values;
}

TEST(Safetensors, EncodesAsTheCompilerRounds) {
  for (double value : aroundHalves()) {
    uint16_t fromDouble = 0, fromFloat = 0;
    const auto single = static_cast<float>(value);
    int64_t lost = encodeFloats(StoredType::F16, &value, 1, &fromDouble);
    ASSERT_EQ(fromDouble, std::bit_cast<uint16_t>(static_cast<_Float16>(value))) << value;
    ASSERT_EQ(lost == 0, std::isfinite(value) && std::abs(value) >= 65520) << value;
    encodeFloats(StoredType::F16, &single, 1, &fromFloat);
    ASSERT_EQ(fromFloat, std::bit_cast<uint16_t>(static_cast<_Float16>(single))) << single;
    float back = 0;
    StoredTensor stored;
    stored.dtype = StoredType::F16;
    stored.data = reinterpret_cast<const std::byte *>(&fromFloat);
    ASSERT_TRUE(convertTensor(stored, DType::F32, &back));
    ASSERT_EQ(back, static_cast<float>(std::bit_cast<_Float16>(fromFloat)));
  }
  const float odd[] = {NAN, 1.00390625f, 1.01171875f, 3.4e38f}; // ties of bfloat16: to even
  uint16_t bits[4];
  EXPECT_EQ(encodeFloats(StoredType::BF16, odd, 4, bits), 3);
  EXPECT_EQ(bits[0] & 0x7fc0, 0x7fc0);
  EXPECT_EQ(bits[1], 0x3f80);
  EXPECT_EQ(bits[2], 0x3f82);
  EXPECT_EQ(bits[3], 0x7f80);
  EXPECT_EQ(encodeFloats(StoredType::F16, odd, 1, bits), -1);
  EXPECT_TRUE(std::isnan(static_cast<float>(std::bit_cast<_Float16>(bits[0]))));
}

TEST(Safetensors, WritesTheFormat) {
  TemporaryFolder folder;
  auto writer = SafetensorsWriter::create(folder / "w.safetensors",
                                          {{"b", StoredType::F32, {2}}, {"a", StoredType::I64, {}}},
                                          {{"format", "pt"}});
  ASSERT_TRUE(writer) << writer.status().message();
  float b[] = {1, 2};
  int64_t a = 3;
  ASSERT_TRUE(writer->append(b, 3)); // pieces of any size
  ASSERT_TRUE(writer->append(reinterpret_cast<char *>(b) + 3, 5));
  ASSERT_TRUE(writer->append(&a, 8));
  EXPECT_FALSE(std::filesystem::exists(folder / "w.safetensors"));
  ASSERT_TRUE(writer->finish());
  std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],)"
      R"("data_offsets":[0,8]},"a":{"dtype":"I64","shape":[],"data_offsets":[8,16]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string data("\0\0\x80\x3f\0\0\0\x40\3\0\0\0\0\0\0\0", 16);
  EXPECT_EQ(readFile(folder / "w.safetensors"), fileOf(header, data));
  auto back = SafetensorsFile::open(folder / "w.safetensors");
  ASSERT_TRUE(back) << back.status().message();
  EXPECT_EQ((*back)->metadata().at("format"), "pt");
}

TEST(Safetensors, AnUnfinishedFileLeavesNothing) {
  TemporaryFolder folder;
  writeFile(folder / "w.safetensors", "old");
  {
    auto writer =
        SafetensorsWriter::create(folder / "w.safetensors", {{"a", StoredType::F32, {2}}});
    ASSERT_TRUE(writer);
    float one = 1;
    ASSERT_TRUE(writer->append(&one, 4));
    EXPECT_FALSE(writer->finish()); // four bytes are missing
    EXPECT_FALSE(SafetensorsWriter::create(
        folder / "v.safetensors", {{"a", StoredType::F32, {}}, {"a", StoredType::F32, {}}}));
  }
  EXPECT_EQ(readFile(folder / "w.safetensors"), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path), {}), 1);
}

TEST(Safetensors, AFullDiskIsAnErrorAndChangesNothing) {
  TemporaryFolder folder;
  writeFile(folder / "w.safetensors", "old");
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{}, small{};
  getrlimit(RLIMIT_FSIZE, &before);
  small = before;
  small.rlim_cur = 4096;
  setrlimit(RLIMIT_FSIZE, &small);
  auto writer =
      SafetensorsWriter::create(folder / "w.safetensors", {{"a", StoredType::F32, {100000}}});
  Status status = writer.status();
  std::vector<float> data(100000);
  if (writer)
    status = writer->append(data.data(), 400000);
  setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_FALSE(status);
  EXPECT_NE(status.message().find("w.safetensors"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("free some space"), std::string::npos) << status.message();
  EXPECT_EQ(readFile(folder / "w.safetensors"), "old");
}

TEST(TensorFiles, ReadsFoldersAndShards) {
  TemporaryFolder folder;
  std::string one = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  std::string two = R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  EXPECT_FALSE(TensorFiles::open(folder.path)); // empty
  writeFile(folder / "x-1.safetensors", fileOf(one, std::string("\0\0\x80\x3f", 4)));
  auto single = TensorFiles::open(folder.path);
  ASSERT_TRUE(single) << single.status().message();
  EXPECT_NE(single->find("a"), nullptr);
  writeFile(folder / "x-2.safetensors", fileOf(two, std::string("\0\0\0\x40", 4)));
  EXPECT_FALSE(TensorFiles::open(folder.path)); // which one?
  std::string index = folder / "model.safetensors.index.json";
  writeFile(index, R"({"weight_map":{"a":"x-1.safetensors","b":"x-2.safetensors"}})");
  auto sharded = TensorFiles::open(folder.path);
  ASSERT_TRUE(sharded) << sharded.status().message();
  EXPECT_EQ(sharded->names(), (std::vector<std::string>{"a", "b"}));
  float value = 0;
  ASSERT_TRUE(convertTensor(*sharded->find("b"), DType::F32, &value));
  EXPECT_EQ(value, 2);
  for (const char *broken :
       {R"({"weight_map":{"a":"x-2.safetensors"}})",
        R"({"weight_map":{"a":"missing.safetensors"}})",
        R"({"weight_map":{"a":"../x-1.safetensors"}})", R"({"weight_map":{"a":7}})", "[]", "{"}) {
    writeFile(index, broken);
    auto result = TensorFiles::open(folder.path);
    ASSERT_FALSE(result) << broken;
    EXPECT_NE(result.status().message().find("index.json"), std::string::npos);
  }
}

} // namespace
