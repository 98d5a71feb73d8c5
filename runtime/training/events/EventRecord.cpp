#include "runtime/training/events/EventRecord.h"
#include "runtime/support/Crc32c.h"
#include <bit>

namespace omnibal::rt {
namespace {

/// How a field's value is encoded.
enum class Wire : uint8_t { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

/// Numbers of fixed size stand with their lowest byte first, on any machine.
void addFixed(std::string &out, uint64_t bits, int bytes) {
  for (int i = 0; i < bytes; ++i)
    out += static_cast<char>(bits >> 8 * i & 0xff);
}

void addVarint(std::string &out, uint64_t value) {
  for (; value > 0x7f; value >>= 7)
    out += static_cast<char>(0x80 | (value & 0x7f));
  out += static_cast<char>(value);
}

void addKey(std::string &out, uint64_t field, Wire wire) {
  addVarint(out, field << 3 | static_cast<uint64_t>(wire));
}

void addBytes(std::string &out, uint64_t field, std::string_view bytes) {
  addKey(out, field, Wire::Bytes);
  addVarint(out, bytes.size());
  out += bytes;
}

std::string eventAt(double wallTime) {
  std::string out;
  addKey(out, 1, Wire::Fixed64);
  addFixed(out, std::bit_cast<uint64_t>(wallTime), 8);
  return out;
}

std::string eventAt(const EventTime &time) {
  std::string out = eventAt(time.wallTime);
  addKey(out, 2, Wire::Varint);
  addVarint(out, static_cast<uint64_t>(time.step));
  return out;
}

std::string valueOf(const Scalar &scalar) {
  std::string out;
  addBytes(out, 1, scalar.tag);
  addKey(out, 2, Wire::Fixed32);
  addFixed(out, std::bit_cast<uint32_t>(scalar.value), 4);
  return out;
}

/// Checksums are stored so that those of data with checksums in it are good ones too.
uint32_t maskedChecksum(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
}

} // namespace

std::string versionEvent(double wallTime) {
  std::string out = eventAt(wallTime);
  addBytes(out, 3, "brain.Event:2");
  return out;
}

std::string startEvent(const EventTime &time) {
  std::string started;
  addKey(started, 1, Wire::Varint);
  addVarint(started, 1);
  std::string out = eventAt(time);
  addBytes(out, 7, started);
  return out;
}

std::string scalarsEvent(const EventTime &time, const std::vector<Scalar> &scalars) {
  std::string summary;
  for (const Scalar &scalar : scalars)
    addBytes(summary, 1, valueOf(scalar));
  std::string out = eventAt(time);
  addBytes(out, 5, summary);
  return out;
}

std::string recordOf(std::string_view event) {
  std::string out;
  addFixed(out, event.size(), 8);
  addFixed(out, maskedChecksum(out), 4);
  out += event;
  addFixed(out, maskedChecksum(event), 4);
  return out;
}

} // namespace omnibal::rt
