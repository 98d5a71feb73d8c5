#include "runtime/training/events/EventRecord.h"
#include "runtime/support/Crc32c.h"
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace omnibal::rt {
namespace {

/// "18 a3" -> two bytes.
std::string bytes(const std::string &hex) {
  std::string out;
  for (size_t i = 0; i < hex.size(); i += 3)
    out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

const std::string oneAndAHalf = bytes("09 00 00 00 00 00 00 f8 3f"); // as wall_time

TEST(Crc32c, GivesPublishedValues) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(""), 0u);
  // RFC 3720, B.4.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string counting;
  for (char c = 0; c < 32; ++c)
    counting += c;
  EXPECT_EQ(crc32c(counting), 0x46dd794eu);
  EXPECT_EQ(crc32c(std::string(counting.rbegin(), counting.rend())), 0x113fdb5cu);
}

TEST(EventRecord, TheFirstEventNamesTheFormat) {
  EXPECT_EQ(versionEvent(1.5), oneAndAHalf + bytes("1a 0d") + "brain.Event:2");
}

TEST(EventRecord, ANewStartNamesItsFirstStep) {
  EXPECT_EQ(startEvent({1.5, 5}), oneAndAHalf + bytes("10 05 3a 02 08 01"));
}

TEST(EventRecord, ScalarsAreInOneSummary) {
  EXPECT_EQ(scalarsEvent({1.5, 300}, {{"a", 1}, {"bc", -0.1f}}),
            oneAndAHalf + bytes("10 ac 02 2a 15") + bytes("0a 08 0a 01 61 15 00 00 80 3f") +
                bytes("0a 09 0a 02 62 63 15 cd cc cc bd"));
}

TEST(EventRecord, LengthsAndStepsMayTakeSeveralBytes) {
  const std::string tag(200, 't');
  EXPECT_EQ(scalarsEvent({1.5, int64_t{1} << 35}, {{tag, 0}}),
            oneAndAHalf + bytes("10 80 80 80 80 80 01") + bytes("2a d3 01 0a d0 01 0a c8 01") +
                tag + bytes("15 00 00 00 00"));
}

/// Of 24 bytes, as a version's event, whose start is how such files are known.
TEST(EventRecord, ARecordHasItsLengthAndMaskedChecksums) {
  const std::string event(24, '\0');
  const std::string record = recordOf(event);
  ASSERT_EQ(record.size(), 8u + 4 + 24 + 4);
  EXPECT_EQ(record.substr(0, 12), bytes("18 00 00 00 00 00 00 00 a3 7f 4b 22"));
  EXPECT_EQ(record.substr(12, 24), event);
}

/// The checksum of nine digits is e3069283; turned right by 15 bits it is 2507c60d, and with
/// a282ead8 added c78ab0e5.
TEST(EventRecord, ChecksumsAreTurnedAndMoved) {
  EXPECT_EQ(recordOf("123456789").substr(12 + 9), bytes("e5 b0 8a c7"));
}

} // namespace
} // namespace omnibal::rt
