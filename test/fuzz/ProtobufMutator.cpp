//===- ProtobufMutator.cpp - Changes that leave a message a message --------------------------===//
//
// The bytes are read as a tree of fields, without knowing the schema: what has a length is a
// message if all of it can be read as one, and otherwise text or data. Fields are changed, doubled,
// removed, exchanged for others, and written with lengths that fit.
//
//===-----------------------------------------------------------------------------------------===//
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

namespace {

enum Wire : uint8_t { Varint, Fixed64, Delimited, Fixed32 = 5 };

struct Field {
  uint64_t number = 0; ///< with the wire type
  uint64_t value = 0;  ///< of a varint
  std::string bytes;   ///< of the others, unless they are a message
  std::vector<Field> fields;
  bool isMessage = false;
  Wire wire() const { return static_cast<Wire>(number & 7); }
};

std::optional<uint64_t> readVarint(std::string_view &bytes) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes[0]);
    bytes.remove_prefix(1);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80)
      return value;
  }
  return std::nullopt;
}

/// Whether it can only be meant as text: such bytes are often a message, too.
bool isText(std::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c >= ' ' && c < 127; });
}

std::optional<std::vector<Field>> readMessage(std::string_view bytes, int depth) {
  std::vector<Field> fields;
  while (!bytes.empty()) {
    Field field;
    const std::optional<uint64_t> number = readVarint(bytes);
    if (!number || *number < 8)
      return std::nullopt;
    field.number = *number;
    if (field.wire() == Varint) {
      const std::optional<uint64_t> value = readVarint(bytes);
      if (!value)
        return std::nullopt;
      field.value = *value;
    } else {
      std::optional<uint64_t> size = field.wire() == Fixed64     ? 8
                                     : field.wire() == Fixed32   ? std::optional<uint64_t>(4)
                                     : field.wire() == Delimited ? readVarint(bytes)
                                                                 : std::nullopt;
      if (!size || *size > bytes.size())
        return std::nullopt;
      field.bytes = bytes.substr(0, *size);
      bytes.remove_prefix(*size);
      if (field.wire() == Delimited && depth > 0 && !isText(field.bytes))
        if (auto inner = readMessage(field.bytes, depth - 1)) {
          field.fields = *std::move(inner);
          field.isMessage = true;
        }
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

void writeVarint(std::string &to, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

std::string written(const std::vector<Field> &fields) {
  std::string bytes;
  for (const Field &field : fields) {
    writeVarint(bytes, field.number);
    if (field.wire() == Varint) {
      writeVarint(bytes, field.value);
      continue;
    }
    const std::string contents = field.isMessage ? written(field.fields) : field.bytes;
    if (field.wire() == Delimited)
      writeVarint(bytes, contents.size());
    bytes += contents;
  }
  return bytes;
}

/// A place in the tree: the list that holds a field, and where.
struct Place {
  std::vector<Field> *list;
  size_t at;
  Field &field() const { return (*list)[at]; }
};

void collect(std::vector<Field> &fields, std::vector<Place> &places) {
  for (size_t i = 0; i < fields.size(); ++i) {
    places.push_back({&fields, i});
    collect(fields[i].fields, places);
  }
}

void mutate(std::vector<Field> &root, std::mt19937 &random) {
  constexpr uint64_t numbers[] = {0,
                                  1,
                                  2,
                                  7,
                                  16,
                                  64,
                                  1u << 31,
                                  UINT32_MAX,
                                  UINT64_MAX,
                                  uint64_t{1} << 63,
                                  1000000,
                                  INT64_MAX,
                                  uint64_t{1} << 40};
  std::vector<Place> places;
  collect(root, places);
  if (places.empty())
    return;
  const auto pick = [&] { return places[random() % places.size()]; };
  const Place place = pick();
  Field &field = place.field();
  switch (random() % 6) {
  case 0:
    place.list->erase(place.list->begin() + static_cast<ptrdiff_t>(place.at));
    return;
  case 1: {
    const Field copy = field;
    place.list->insert(place.list->begin() + static_cast<ptrdiff_t>(place.at), copy);
    return;
  }
  case 2: { // like another of its kind
    const Field other = pick().field();
    if (other.number == field.number || random() % 4 == 0)
      field = other;
    else if (other.wire() == field.wire() && other.isMessage == field.isMessage) {
      field.value = other.value;
      field.bytes = other.bytes;
      field.fields = other.fields;
    }
    return;
  }
  case 3:
    std::swap(field, (*place.list)[random() % place.list->size()]);
    return;
  default:
    break;
  }
  if (field.wire() == Varint) {
    field.value =
        random() % 2 ? numbers[random() % std::size(numbers)] : field.value + random() % 5 - 2;
  } else if (!field.isMessage) {
    const size_t size = field.bytes.size(), room = field.wire() == Delimited ? size + 16 : size;
    field.bytes.resize(room);
    const size_t now =
        LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(field.bytes.data()), size, room);
    field.bytes.resize(field.wire() == Delimited ? now : room);
  }
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  constexpr int deepest = 8;
  std::mt19937 random(seed);
  auto root = readMessage({reinterpret_cast<const char *>(data), size}, deepest);
  if (!root || random() % 16 == 0)
    return LLVMFuzzerMutate(data, size, most);
  for (size_t i = 0, changes = 1 + random() % 3; i < changes; ++i)
    mutate(*root, random);
  const std::string bytes = written(*root);
  if (bytes.size() > most)
    return size;
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}
