// LENGTHS.csv: what is accepted, and that every error names file and line.
#include "runtime/batching/io/LengthsCsv.h"
#include "test/unit/runtime/data/TestTar.h"
#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <random>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace omnibal::rt {
namespace {

using test::TemporaryFolder;
using test::writeFile;

class LengthsCsv : public testing::Test {
protected:
  void SetUp() override { path = folder / "lengths.csv"; }
  Result<SampleLengths> read(const std::string &text) {
    writeFile(path, text);
    return readLengthsCsv(path);
  }
  void expectLengths(const std::string &text, const std::vector<int32_t> &tiles,
                     const std::vector<int32_t> &tokens) {
    auto lengths = read(text);
    ASSERT_TRUE(lengths) << lengths.status().message() << "\n" << text;
    EXPECT_EQ(lengths->tiles, tiles) << text;
    EXPECT_EQ(lengths->tokens, tokens) << text;
  }
  /// The message begins with the file, names the line (0: none) and says `part`.
  void expectError(const std::string &text, int64_t line, const std::string &part) {
    auto lengths = read(text);
    ASSERT_FALSE(lengths) << text;
    std::string message = lengths.status().message();
    std::string where = path + (line > 0 ? ", line " + std::to_string(line) + ": " : ": ");
    EXPECT_EQ(message.rfind(where, 0), 0u) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  TemporaryFolder folder;
  std::string path;
};

TEST_F(LengthsCsv, ColumnsAnywhere) {
  expectLengths("vit_num,token_num\n5,1370\n0,12\n", {5, 0}, {1370, 12});
  expectLengths("key,token_num,extra,vit_num,more\na,7,x,3,\nb,8,,4,y\n", {3, 4}, {7, 8});
  expectLengths("token_num,vit_num\n2147483647,0\n", {0}, {2147483647});
}

TEST_F(LengthsCsv, SquaresOfPictures) {
  for (const char *text : {"vit_num,token_num,vit_square_sum\n8,9,34\n0,5,0\n",
                           "vit_square_sum,key,token_num,vit_num\r\n34,a,9,8\r\n0,b,5,0\r\n",
                           "vit_num,\"vit_square_sum\",token_num\n\"8\", 34 ,9\n0,00,5\n"}) {
    expectLengths(text, {8, 0}, {9, 5});
    EXPECT_EQ(read(text)->squaredTiles, (std::vector<int64_t>{34, 0})) << text;
  }
  EXPECT_FALSE(read("vit_num,token_num\n8,9\n")->knowsPictures());
  std::string large = "vit_num,token_num,vit_square_sum\n2147483647,1,4611686014132420609\n";
  EXPECT_EQ(read(large)->squaredTiles, std::vector<int64_t>{4611686014132420609});
  const std::string head = "vit_num,token_num,vit_square_sum\n3,9,5\n";
  expectError(head + "3,9,1\n", 3,
              "vit_square_sum is 1, but the pictures of 3 units (vit_num) have squares that sum to "
              "3, if each unit is a picture, to 9, if there is one picture, in steps of 2");
  expectError(head + "3,9,11\n", 3, "vit_square_sum is 11");
  expectError(head + "3,9,4\n", 3, "vit_square_sum is 4");
  expectError(head + "3,9,-1\n", 3, "vit_square_sum is \"-1\", but lengths are not negative");
  expectError(head + "3,9,99999999999999999999\n", 3,
              "vit_square_sum is \"99999999999999999999\", more than 9223372036854775807");
}

TEST_F(LengthsCsv, FormsOfText) {
  expectLengths("vit_num,token_num\r\n5,1370\r\n0,12\r\n", {5, 0}, {1370, 12});
  expectLengths("\xef\xbb\xbfvit_num,token_num\n5,1370", {5}, {1370}); // no line end at the end
  expectLengths("\"vit_num\" , token_num \n\"5\" ,1\n", {5}, {1});
}

TEST_F(LengthsCsv, QuotedFields) {
  expectLengths("\"key\",\"vit_num\",\"token_num\"\n\"a,b\",\"5\",\"6\"\n\"say \"\"x\"\"\",7,8\n",
                {5, 7}, {6, 8});
  expectLengths("key,vit_num,token_num\n\"two\nlines\",1,2\n3,4,5\n", {1, 4}, {2, 5});
  expectLengths("vit_num,token_num,key\r\n1,2,\"a\"\r\n3,4,b \"c\" d\r\n", {1, 3}, {2, 4});
}

TEST_F(LengthsCsv, SpacesAndEmptyLinesAtTheEnd) {
  expectLengths("vit_num,token_num\n 5 ,\t1370\n007,0\n\n \n\r\n", {5, 7}, {1370, 0});
}

TEST_F(LengthsCsv, BadHeaders) {
  expectError("", 0, "the file is empty");
  expectError("vit_num\n1\n", 1, "no column token_num");
  expectError("5,1370\n", 1, "no column vit_num; it names \"5\", \"1370\"");
  expectError("vit_num;token_num\n1;2\n", 1, "separated by commas");
  expectError("vit_num,token_num,vit_num\n1,2,3\n", 1, "two columns vit_num");
  expectError("vit_num,vit_square_sum,token_num,vit_square_sum\n1,1,2,3\n", 1,
              "two columns vit_square_sum");
  expectError("vit_num,token_num\n", 0, "no line of a sample");
  expectError("vit_num,token_num\n\n\n", 0, "no line of a sample");
}

TEST_F(LengthsCsv, BadLines) {
  const std::string good = "vit_num,token_num,flag\n1,2,3\n4,5,6\n";
  expectError(good + "7,8\n9,9,9\n", 4, "2 fields, but the header has 3");
  expectError(good + "7,8,9,10\n", 4, "4 fields");
  expectError(good + "7\n", 4, "1 fields");
  expectError(good + "\n7,8,9\n", 4, "the line is empty, but samples follow");
  expectError(good + "-1,8,9\n", 4, "vit_num is \"-1\", but lengths are not negative");
  expectError(good + "1,2147483648,9\n", 4, "token_num is \"2147483648\", more than 2147483647");
  expectError(good + "1,99999999999999999999999,9\n", 4, "more than 2147483647");
  expectError(good + "1,,9\n", 4, "token_num is empty");
  expectError(good + "1,x,9\n", 4, "token_num is \"x\", not a whole number");
  expectError(good + "1,2.0,9\n", 4, "not a whole number");
  expectError(good + "1,1e3,9\n", 4, "not a whole number");
  expectError(good + "1,0x10,9\n", 4, "not a whole number");
  expectError(good + "nan,1,9\n", 4, "vit_num is \"nan\"");
  expectError(good + "1,\"2,9\n7,8,9\n", 4, "a quoted field is not closed");
  expectError(good + "1,\"2\"3,9\n", 4, "text after a field's closing quote");
  expectError(good + std::string("1,2\0,9\n", 7), 4, "not a whole number");
  expectError("key,vit_num,token_num\n\"three\n\nlines\",1,2\nx,-4,5\n", 5, "not negative");
}

TEST_F(LengthsCsv, FilesThatCannotBeRead) {
  auto lengths = readLengthsCsv(folder / "none.csv");
  ASSERT_FALSE(lengths);
  EXPECT_NE(lengths.status().message().find("none.csv"), std::string::npos);
  EXPECT_FALSE(readLengthsCsv(folder.path));
}

// Blocks end anywhere: inside numbers, quotes and line ends. The tables are larger than a few
// blocks, and one record of each is larger than a block.
TEST_F(LengthsCsv, BordersOfBlocks) {
  std::mt19937 random(1);
  for (const char *lineEnd : {"\n", "\r\n"}) {
    std::string text = "key,vit_num,token_num,note" + std::string(lineEnd);
    SampleLengths expected;
    for (int64_t i = 0; text.size() < 5'000'000; ++i) {
      int32_t tiles = static_cast<int32_t>(random() % 20);
      int32_t tokens = static_cast<int32_t>(random() >> (random() % 31 + 1));
      std::string key(random() % 30, 'k');
      if (i == 1000)
        key.assign(3'000'000, 'x');
      if (random() % 5 == 0)
        key = "\"a,\"\"" + key + "\r\n\"";
      text += key + "," + std::to_string(tiles) + "," + std::to_string(tokens) + ",\"n\"" + lineEnd;
      expected.tiles.push_back(tiles);
      expected.tokens.push_back(tokens);
    }
    auto lengths = read(text);
    ASSERT_TRUE(lengths) << lengths.status().message();
    EXPECT_EQ(lengths->tiles, expected.tiles);
    EXPECT_EQ(lengths->tokens, expected.tokens);
  }
}

TEST_F(LengthsCsv, LineNumbersFarInside) {
  std::string text = "vit_num,token_num\n";
  for (int i = 0; i < 300'000; ++i)
    text += "5,1370\n";
  expectError(text + "5,-1\n" + text, 300'002, "not negative");
  expectError("a,vit_num,token_num\n\"" + std::string(20'000'000, 'x'), 2, "not closed");
}

TEST_F(LengthsCsv, PiecesAndPipes) {
  std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] {
    int fd = ::open(pipe.c_str(), O_WRONLY);
    for (const char *part : {"vit_", "num,token_num\n1", ",2\n3", ",4\n5,6"}) {
      EXPECT_GT(::write(fd, part, std::strlen(part)), 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ::close(fd);
  });
  auto reader = LengthsReader::open(pipe);
  SampleLengths lengths;
  std::vector<int64_t> counts;
  while (reader && (counts.empty() || counts.back() > 0)) {
    auto count = reader->read(2, lengths);
    counts.push_back(count ? *count : -1);
  }
  writer.join();
  ASSERT_GE(counts.size(), 3u); // at most two at a time, and none at the end
  EXPECT_EQ(counts.back(), 0);
  EXPECT_LE(*std::max_element(counts.begin(), counts.end()), 2);
  EXPECT_EQ(lengths.tiles, (std::vector<int32_t>{1, 3, 5}));
  EXPECT_EQ(lengths.tokens, (std::vector<int32_t>{2, 4, 6}));
}

} // namespace
} // namespace omnibal::rt
