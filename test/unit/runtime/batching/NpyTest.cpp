// NumPy's files: bytes as NumPy itself writes them, and files that are not what they should be.
#include "runtime/batching/io/Npy.h"
#include "test/unit/runtime/data/TestTar.h"
#include <gtest/gtest.h>
#include <numeric>

namespace omnibal::rt {
namespace {

using test::TemporaryFolder;
using test::writeFile;

// numpy.save of numpy.array([7, -2], "<i8") and of numpy.array([[1, 2], [3, 4], [5, 6]], "<i4").
std::string preamble(const std::string &header) {
  std::string padded = header;
  padded.resize(117, ' ');
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + padded + "\n";
}
std::string bytesOf(const auto &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(values[0])};
}
const std::string longs = preamble("{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }") +
                          bytesOf(std::vector<int64_t>{7, -2});
const std::string pairs = preamble("{'descr': '<i4', 'fortran_order': False, 'shape': (3, 2), }") +
                          bytesOf(std::vector<int32_t>{1, 2, 3, 4, 5, 6});

class Npy : public testing::Test {
protected:
  std::string path = "";
  void SetUp() override { path = folder / "array.npy"; }
  std::string error(const std::string &bytes) {
    writeFile(path, bytes);
    auto values = readNpy(path);
    return values ? "" : values.status().message();
  }
  Result<std::vector<int32_t>> rows(const std::string &bytes, int64_t columns) {
    writeFile(path, bytes);
    std::vector<int32_t> values;
    Status status = readNpyRows(
        path, columns,
        [&](int64_t count) {
          values.reserve(static_cast<size_t>(count * columns));
          return Status::ok();
        },
        [&](int64_t row, std::span<const int32_t> block) {
          EXPECT_EQ(row * columns, static_cast<int64_t>(values.size()));
          values.insert(values.end(), block.begin(), block.end());
          return Status::ok();
        });
    if (!status)
      return status;
    return values;
  }
  TemporaryFolder folder;
};

TEST_F(Npy, WritesNumPysOwnBytes) {
  auto writer = NpyWriter::int64(path, 2);
  ASSERT_TRUE(writer) << writer.status().message();
  for (int64_t value : {7, -2})
    ASSERT_TRUE(writer->append(std::span<const int64_t>(&value, 1)));
  EXPECT_FALSE(readWholeFile(path)); // invisible until it is complete
  ASSERT_TRUE(writer->commit());
  EXPECT_EQ(*readWholeFile(path), longs);

  auto table = NpyWriter::int32(path, 3, 2);
  ASSERT_TRUE(table);
  ASSERT_TRUE(table->append(std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
  ASSERT_TRUE(table->commit());
  EXPECT_EQ(*readWholeFile(path), pairs);
}

TEST_F(Npy, ReadsShapesAsTheyMayBeWritten) {
  const auto longsWith = [](const std::string &shape, size_t spaces) {
    const std::string header = "{'descr': '<i8', 'shape':" + std::string(spaces, ' ') + shape + "}";
    return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size() & 0xff) +
           static_cast<char>(header.size() >> 8) + header + bytesOf(std::vector<int64_t>{7, -2});
  };
  for (const char *shape : {"(2,)", "( 2 , )", "(2,\t)"})
    EXPECT_EQ(error(longsWith(shape, 1)), "") << shape;
  // A header as long as they may be.
  EXPECT_EQ(error(longsWith("(2,)", 60'000)), "");
  for (const char *shape : {"(2)", "(2 2)", "(,2)", "(2,", "2,", "(-2,)", "(2,,)",
                            "(0000000000000002,)", "()", "(99999999999999999999,)"})
    EXPECT_NE(error(longsWith(shape, 0)), "") << shape;
}

TEST_F(Npy, ReadsBothKinds) {
  writeFile(path, longs);
  auto values = readNpy(path);
  ASSERT_TRUE(values) << values.status().message();
  EXPECT_EQ(*values, (std::vector<int64_t>{7, -2}));
  auto table = rows(pairs, 2);
  ASSERT_TRUE(table) << table.status().message();
  EXPECT_EQ(*table, (std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
}

TEST_F(Npy, VersionTwoHasAWideLength) {
  std::string text = "{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }\n";
  std::string bytes = std::string("\x93NUMPY\x02\x00", 8) + char(text.size()) +
                      std::string(3, '\0') + text + bytesOf(std::vector<int64_t>{5});
  writeFile(path, bytes);
  auto values = readNpy(path);
  ASSERT_TRUE(values) << values.status().message();
  EXPECT_EQ(*values, std::vector<int64_t>{5});
}

TEST_F(Npy, ManyBlocks) {
  constexpr int64_t count = 400'000; // more than one block of rows
  std::vector<int32_t> numbers(2 * count);
  std::iota(numbers.begin(), numbers.end(), -5);
  auto writer = NpyWriter::int32(path, count, 2);
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->append(numbers));
  ASSERT_TRUE(writer->commit());
  auto read = rows(*readWholeFile(path), 2);
  ASSERT_TRUE(read) << read.status().message();
  EXPECT_EQ(*read, numbers);
}

TEST_F(Npy, EmptyArrays) {
  auto writer = NpyWriter::int64(path, 0);
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->commit());
  auto values = readNpy(path);
  ASSERT_TRUE(values) << values.status().message();
  EXPECT_TRUE(values->empty());
}

TEST_F(Npy, BadFilesAreNamed) {
  auto expect = [&](const std::string &bytes, const std::string &part) {
    std::string message = error(bytes);
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(message.rfind(path, 0), 0u) << message;
  };
  expect("", "not a NumPy file");
  expect("something that is long enough", "not a NumPy file");
  expect(pairs, "one-dimensional int64");
  expect(longs.substr(0, 100), "header is cut off");
  expect(longs.substr(0, longs.size() - 1), "not as long as the header says");
  expect(longs + "x", "not as long as the header says");
  expect(preamble("{'descr': '<i8', 'fortran_order': False, 'shape': (999999999999999,), }"),
         "not as long");
  expect(preamble("{'descr': '<i8', 'fortran_order': False, 'shape': (9999999999999999999,), }"),
         "one-dimensional int64");
  std::string later = longs;
  later[6] = 4;
  expect(later, "version 4");
  EXPECT_FALSE(readNpy(folder / "none.npy"));
  auto table = rows(pairs, 3);
  ASSERT_FALSE(table);
  EXPECT_NE(table.status().message().find("3 columns are expected, there are 2"),
            std::string::npos);
  std::string transposed = pairs;
  transposed.replace(transposed.find("False"), 5, "True ");
  EXPECT_FALSE(rows(transposed, 2));
}

TEST_F(Npy, TooManyOrTooFewValues) {
  auto writer = NpyWriter::int64(path, 1);
  ASSERT_TRUE(writer);
  EXPECT_FALSE(writer->commit());
  EXPECT_FALSE(writer->append(std::vector<int64_t>{1, 2}));
  EXPECT_FALSE(writer->append(std::vector<int32_t>{1}));
  EXPECT_FALSE(NpyWriter::int64(path, -1));
  EXPECT_FALSE(NpyWriter::int64(folder / "missing/array.npy", 1));
}

} // namespace
} // namespace omnibal::rt
