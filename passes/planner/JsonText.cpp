//===- JsonText.cpp ----------------------------------------------------------------------===//
#include "passes/planner/JsonText.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MemoryBuffer.h"

namespace omnibal::planner {
namespace json = llvm::json;
namespace {

constexpr size_t deepest = 64, mostObjects = 250'000, mostLists = 5'000'000;
/// Before the text of a number that is no integer, which becomes a string.
constexpr char numberMark = '\x01';

llvm::Error bad(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// Goes over the text once, before the parser does; what is malformed is left to that.
class Scanner {
public:
  Scanner(llvm::StringRef text, llvm::StringRef where) : text(text), where(where) {}

  /// The text with exact numbers.
  llvm::Expected<std::string> run() {
    while (at < text.size()) {
      char c = text[at];
      if (c == '"') {
        if (llvm::Error error = string())
          return std::move(error);
      } else if (llvm::isDigit(c) || c == '-') {
        number();
      } else {
        if (llvm::Error error = structure(c))
          return std::move(error);
        result += c;
        ++at;
      }
    }
    return std::move(result);
  }

private:
  struct Container {
    bool isObject = false, expectsKey = false;
    llvm::StringSet<> keys;
  };

  llvm::Error structure(char c) {
    if (c == '{' || c == '[') {
      if (open.size() >= deepest)
        return bad(where + ": nested deeper than " + llvm::Twine(deepest));
      if (c == '{' ? ++objects > mostObjects : ++lists > mostLists)
        return bad(where + ": too large: more than " + llvm::Twine(mostObjects) + " objects or " +
                   llvm::Twine(mostLists) + " lists; join equal neighbouring layers");
      open.push_back({c == '{', c == '{', {}});
    } else if ((c == '}' || c == ']') && !open.empty()) {
      open.pop_back();
    } else if (c == ',' && !open.empty()) {
      open.back().expectsKey = open.back().isObject;
    }
    return llvm::Error::success();
  }

  llvm::Error string() {
    size_t begin = at;
    for (++at; at < text.size() && text[at] != '"'; ++at)
      at += text[at] == '\\';
    at = std::min(at + 1, text.size());
    llvm::StringRef token = text.slice(begin, at);
    result += token;
    if (open.empty() || !open.back().expectsKey)
      return llvm::Error::success();
    open.back().expectsKey = false;
    std::string key = token.drop_front().drop_back(token.size() > 1).str();
    if (llvm::StringRef(key).contains('\\')) {
      llvm::Expected<json::Value> decoded = json::parse(token);
      if (!decoded)
        return bad(where + ": not JSON: " + llvm::toString(decoded.takeError()));
      key = decoded->getAsString().value_or("").str();
    }
    if (!open.back().keys.insert(key).second)
      return bad(where + ": the key `" + key + "` is there twice in one object");
    return llvm::Error::success();
  }

  void number() {
    size_t begin = at;
    at = std::min(text.find_first_not_of("0123456789+-.eE", at), text.size());
    llvm::StringRef token = text.slice(begin, at);
    std::optional<Decimal> value;
    if (token.find_first_of(".eE") == llvm::StringRef::npos)
      result += token;
    else if ((value = Decimal::parse(std::string_view(token))) && value->scale == 0)
      result += std::to_string(value->digits);
    else
      result += "\"\\u0001" + token.str() + "\"";
  }

  llvm::StringRef text, where;
  size_t at = 0, objects = 0, lists = 0;
  std::vector<Container> open;
  std::string result;
};

std::optional<llvm::StringRef> markedNumber(const json::Value &value) {
  std::optional<llvm::StringRef> text = value.getAsString();
  if (!text || !text->consume_front({&numberMark, 1}))
    return std::nullopt;
  return text;
}

} // namespace

namespace {

llvm::Expected<json::Value> parse(llvm::StringRef text, llvm::StringRef where, bool exactNumbers) {
  text.consume_front("\xEF\xBB\xBF");
  if (text.trim().empty())
    return bad(where + ": the file is empty");
  llvm::Expected<std::string> exact = Scanner(text, where).run();
  if (!exact)
    return exact.takeError();
  llvm::Expected<json::Value> value = json::parse(exactNumbers ? llvm::StringRef(*exact) : text);
  if (!value)
    return bad(where + ": not JSON: " + llvm::toString(value.takeError()));
  return value;
}

llvm::Expected<json::Value> read(llvm::StringRef path, bool exactNumbers) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer)
    return bad(path + ": cannot be read: " + buffer.getError().message());
  return parse((*buffer)->getBuffer(), path, exactNumbers);
}

} // namespace

llvm::Expected<json::Value> parseJson(llvm::StringRef text, llvm::StringRef where) {
  return parse(text, where, true);
}

llvm::Expected<json::Value> readJson(llvm::StringRef path) { return read(path, true); }

llvm::Expected<json::Value> readPlainJson(llvm::StringRef path) { return read(path, false); }

std::optional<Decimal> decimalOf(const json::Value &value) {
  if (std::optional<int64_t> whole = value.getAsInteger())
    return Decimal::parse(std::to_string(*whole));
  if (std::optional<llvm::StringRef> text = markedNumber(value))
    return Decimal::parse(std::string_view(*text));
  return std::nullopt;
}

std::optional<double> doubleOf(const json::Value &value) {
  double number = 0;
  if (std::optional<llvm::StringRef> text = markedNumber(value))
    return text->getAsDouble(number) ? std::nullopt : std::optional(number);
  return value.getAsNumber();
}

} // namespace omnibal::planner
