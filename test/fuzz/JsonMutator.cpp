//===- JsonMutator.cpp - Changes that leave JSON mostly JSON ---------------------------------===//
//
// libFuzzer's own changes of single bytes rarely get past a parser. Here the values of a text are
// replaced, doubled, removed, nested and given the contents of others; now and then bytes change
// all the same. What stands around the JSON (other parts, a byte of switches) may be anything.
//
//===-----------------------------------------------------------------------------------------===//
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

namespace {

struct Span {
  size_t begin, end;
  size_t size() const { return end - begin; }
};

struct Found {
  std::vector<Span> values, keys, numbers, texts;
};

constexpr const char *numbers[] = {"0",
                                   "1",
                                   "-1",
                                   "2",
                                   "3",
                                   "8",
                                   "64",
                                   "65535",
                                   "65536",
                                   "0.5",
                                   "-0.0",
                                   "1e-320",
                                   "1e38",
                                   "3.5e38",
                                   "1e308",
                                   "2147483647",
                                   "2147483648",
                                   "4294967295",
                                   "4294967296",
                                   "1125899906842624",
                                   "1125899906842625",
                                   "4503599627370496",
                                   "9007199254740993",
                                   "4611686018427387904",
                                   "9223372036854775807",
                                   "9223372036854775808",
                                   "-9223372036854775808",
                                   "18446744073709551615",
                                   "18446744073709551616",
                                   "1000000",
                                   "-2147483648"};
constexpr const char *others[] = {"null", "true", "false", "\"\"", "[]", "{}", "[[]]", "[0]"};

bool isWordByte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '+' || c == '.';
}

Found find(const std::string &text) {
  Found found;
  std::vector<size_t> open;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"') {
      size_t end = i + 1;
      while (end < text.size() && text[end] != '"')
        end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
      const size_t next = text.find_first_not_of(" \t\r\n", end);
      found.texts.push_back({i, end});
      (next != text.npos && text[next] == ':' ? found.keys : found.values).push_back({i, end});
      i = end;
    } else if (c == '[' || c == '{') {
      open.push_back(i++);
    } else if (c == ']' || c == '}') {
      ++i;
      if (!open.empty()) {
        found.values.push_back({open.back(), i});
        open.pop_back();
      }
    } else if (isWordByte(c)) {
      size_t end = i;
      while (end < text.size() && isWordByte(text[end]))
        ++end;
      if (text.compare(i, end - i, "---") != 0) {
        found.values.push_back({i, end});
        if (c == '-' || (c >= '0' && c <= '9'))
          found.numbers.push_back({i, end});
      }
      i = end;
    } else {
      ++i;
    }
  }
  return found;
}

class Mutation {
public:
  Mutation(std::string &text, size_t most, std::mt19937 &random)
      : text(text), most(most), random(random), found(find(text)) {}

  void make() {
    switch (below(12)) {
    case 0:
    case 1:
    case 2:
      return number();
    case 3:
    case 4:
      return copyOver(found.values, found.values);
    case 5:
      return remove();
    case 6:
    case 7:
      return repeat();
    case 8:
      return copyOver(below(2) ? found.keys : found.texts, found.texts);
    case 9:
      return nest();
    case 10:
      return replace(pick(found.values), one(others));
    default:
      return bytes();
    }
  }

private:
  size_t below(size_t count) { return count ? random() % count : 0; }
  template <typename List> std::string one(const List &list) {
    return list[below(std::size(list))];
  }
  Span pick(const std::vector<Span> &list) {
    return list.empty() ? Span{0, 0} : list[below(list.size())];
  }
  std::string at(Span span) const { return text.substr(span.begin, span.size()); }
  void replace(Span span, const std::string &with) {
    if (text.size() - span.size() + with.size() <= most)
      text.replace(span.begin, span.size(), with);
  }

  void number() {
    const Span span = pick(found.numbers);
    if (span.size() == 0)
      return bytes();
    if (below(3) == 0)
      return replace(span, one(numbers));
    // Near the old one, or a multiple.
    const int64_t old = std::strtoll(at(span).c_str(), nullptr, 10);
    const uint64_t value = static_cast<uint64_t>(old);
    const uint64_t near[] = {value + 1, value - 1, value * 2, value / 2, value + 8, value * 1024};
    replace(span, std::to_string(static_cast<int64_t>(near[below(std::size(near))])));
  }
  void copyOver(const std::vector<Span> &to, const std::vector<Span> &from) {
    const std::string copy = at(pick(from));
    replace(pick(to), copy);
  }
  void remove() {
    Span span = pick(found.values);
    if (span.end < text.size() && text[span.end] == ',')
      ++span.end;
    else if (span.begin > 0 && text[span.begin - 1] == ',')
      --span.begin;
    replace(span, "");
  }
  void repeat() {
    const Span span = pick(found.values);
    std::string copies;
    for (size_t i = 0, count = below(8) ? 1 : 1 + below(40); i < count; ++i)
      copies += "," + at(span);
    replace({span.end, span.end}, copies);
  }
  void nest() {
    const Span span = pick(found.values);
    const size_t depth = below(4) ? 1 + below(3) : below(100);
    replace(span, std::string(depth, '[') + at(span) + std::string(depth, ']'));
  }
  /// libFuzzer's changes, of one value or of everything.
  void bytes() {
    const Span span = below(2) ? pick(found.values) : Span{0, text.size()};
    const size_t room = std::min(span.size() + 16, most - (text.size() - span.size()));
    std::string part = at(span);
    part.resize(std::max(room, span.size()));
    const size_t size =
        LLVMFuzzerMutate(reinterpret_cast<uint8_t *>(part.data()), span.size(), room);
    part.resize(size);
    replace(span, part);
  }

  std::string &text;
  size_t most;
  std::mt19937 &random;
  Found found;
};

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  std::mt19937 random(seed);
  std::string text(reinterpret_cast<const char *>(data), size);
  for (size_t i = 0, changes = 1 + random() % 3; i < changes; ++i)
    Mutation(text, most, random).make();
  size = std::min(text.size(), most);
  std::memcpy(data, text.data(), size);
  return size;
}
