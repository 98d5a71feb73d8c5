#include "runtime/training/answers/Vocabulary.h"
#include "runtime/support/Json.h"
#include <map>
#include <optional>

namespace omnibal::rt {
namespace {

using nlohmann::json;

constexpr int64_t mostTokens = int64_t{1} << 24;

/// The next code point of UTF-8 text, which JSON always is.
uint32_t nextPoint(std::string_view text, size_t &at) {
  const auto first = static_cast<unsigned char>(text[at++]);
  const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
  uint32_t point = more == 0 ? first : first & (0x3fu >> more);
  for (int i = 0; i < more && at < text.size(); ++i)
    point = point << 6 | (static_cast<unsigned char>(text[at++]) & 0x3fu);
  return point;
}

/// Byte-level vocabularies write each byte as a character: itself if it can be seen, and from 256
/// on in their order if not.
std::map<uint32_t, char> bytesOfCharacters() {
  std::map<uint32_t, char> bytes;
  uint32_t hidden = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool seen = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    bytes[seen ? byte : hidden++] = static_cast<char>(byte);
  }
  return bytes;
}

std::string fromByteLevel(std::string_view token) {
  static const std::map<uint32_t, char> bytes = bytesOfCharacters();
  std::string out;
  for (size_t at = 0; at < token.size();) {
    const size_t begin = at;
    auto found = bytes.find(nextPoint(token, at));
    if (found == bytes.end())
      out += token.substr(begin, at - begin);
    else
      out += found->second;
  }
  return out;
}

/// <0x0A> is a byte, and the mark is a space.
std::string fromPiece(std::string_view token) {
  auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'A' + 10; };
  constexpr std::string_view digits = "0123456789ABCDEF";
  if (token.size() == 6 && token.starts_with("<0x") && token[5] == '>' &&
      digits.find(token[3]) != digits.npos && digits.find(token[4]) != digits.npos)
    return {static_cast<char>(digit(token[3]) * 16 + digit(token[4]))};
  constexpr std::string_view mark = "\xe2\x96\x81";
  std::string out(token);
  for (size_t at = 0; (at = out.find(mark, at)) != std::string::npos; ++at)
    out.replace(at, mark.size(), " ");
  return out;
}

/// Whether a component, or one of a sequence of them, is of that type.
bool has(const json &component, const char *type) {
  if (!component.is_object())
    return false;
  if (component.value("type", json()) == type)
    return true;
  for (const char *list : {"decoders", "pretokenizers"})
    if (auto found = component.find(list); found != component.end() && found->is_array())
      for (const json &each : *found)
        if (has(each, type))
          return true;
  return false;
}

} // namespace

Status Vocabulary::add(int64_t id, std::string bytes, bool special, const std::string &where) {
  if (id < 0 || id >= mostTokens)
    return invalid(where + ": a token has the id " + std::to_string(id) +
                   ", which is not from 0 to " + std::to_string(mostTokens - 1));
  tokens[static_cast<int32_t>(id)] = {std::move(bytes), special};
  return Status::ok();
}

Result<Vocabulary> Vocabulary::parse(std::string_view text, const std::string &where) {
  OMNIBAL_ASSIGN_OR_RETURN(const json file, parseJson(text, where));
  const json model = file.is_object() ? file.value("model", json()) : json();
  const json vocabulary = model.is_object() ? model.value("vocab", json()) : json();
  if (!vocabulary.is_object() && !vocabulary.is_array())
    return invalid(where + ": it has no model.vocab; it is not the tokenizer.json of a model");
  const bool isByteLevel = has(file.value("decoder", json()), "ByteLevel") ||
                           has(file.value("pre_tokenizer", json()), "ByteLevel");
  auto decoded = [&](const std::string &token) {
    return isByteLevel ? fromByteLevel(token) : fromPiece(token);
  };
  Vocabulary made;
  auto wrong = [&](const std::string &what) {
    return invalid(where + ": model.vocab has " + what + ", which is no token");
  };
  int64_t place = 0;
  for (const auto &[key, value] : vocabulary.items()) {
    if (vocabulary.is_array()) { // [token, score]
      if (!value.is_array() || value.empty() || !value[0].is_string())
        return wrong("an entry " + std::to_string(place));
      OMNIBAL_RETURN_IF_ERROR(
          made.add(place++, decoded(value[0].get<std::string>()), false, where));
    } else {
      const std::optional<int64_t> id = integerOf(value);
      if (!id)
        return wrong("an entry without a number");
      OMNIBAL_RETURN_IF_ERROR(made.add(*id, decoded(key), false, where));
    }
  }
  const json added = file.value("added_tokens", json::array());
  for (const json &token : added.is_array() ? added : json::array()) {
    const std::optional<int64_t> id =
        token.is_object() ? integerOf(token.value("id", json())) : std::nullopt;
    const json content = token.is_object() ? token.value("content", json()) : json();
    if (!id || !content.is_string())
      return invalid(where + ": added_tokens has an entry without id and content");
    const bool special = token.value("special", json()) == json(true);
    OMNIBAL_RETURN_IF_ERROR(made.add(*id, content.get<std::string>(), special, where));
  }
  return made;
}

std::string Vocabulary::text(std::span<const int32_t> ids) const {
  std::string out;
  for (int32_t id : ids) {
    const auto token = tokens.find(id);
    if (token == tokens.end())
      out += "<" + std::to_string(id) + ">";
    else if (!token->second.special)
      out += token->second.bytes;
  }
  return out;
}

std::vector<int32_t> endsOfAnswers(std::string_view config, const std::string &where) {
  const Result<json> file = parseJson(config, where);
  if (!file || !file->is_object())
    return {};
  json ends = file->value("eos_token_id", json());
  if (ends.is_null())
    if (auto text = file->find("text_config"); text != file->end() && text->is_object())
      ends = text->value("eos_token_id", json());
  if (!ends.is_array())
    ends = json::array({ends});
  std::vector<int32_t> ids;
  for (const json &end : ends)
    if (std::optional<int64_t> id = integerOf(end); id && *id >= 0 && *id < mostTokens)
      ids.push_back(static_cast<int32_t>(*id));
  return ids;
}

} // namespace omnibal::rt
