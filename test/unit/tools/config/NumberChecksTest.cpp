//===- NumberChecksTest.cpp - What a flag's number may be --------------------------------===//
#include "tools/NumberChecks.h"
#include <gtest/gtest.h>

namespace omnibal::rt {
namespace {

TEST(NumberChecks, BytesMayHaveAnExponent) {
  const CLI::Validator bytes = byteCount();
  for (auto [text, digits] : {std::pair{"1", "1"},
                              {"3e10", "30000000000"},
                              {"7.6E+10", "76000000000"},
                              {"8000000000.0", "8000000000"},
                              {"9223372036854775807", "9223372036854775807"}}) {
    std::string became = text;
    EXPECT_EQ(bytes(became), "") << text;
    EXPECT_EQ(became, digits);
  }
  for (const char *text :
       {"0", "-1", "-3e10", "1.5", "1e-1", "1e19", "1e400", "9223372036854775808", "inf", "nan",
        "0x10", "3e10 ", " 3e10", "3e10B", "80GB", ""}) {
    std::string became = text;
    EXPECT_EQ(bytes(became), text + std::string(" is not a whole number of bytes from 1 to "
                                                "9223372036854775807"));
    EXPECT_EQ(became, text);
  }
}

} // namespace
} // namespace omnibal::rt
