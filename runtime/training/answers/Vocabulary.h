//===- Vocabulary.h - What token ids say ------------------------------------------------------===//
#ifndef RUNTIME_TRAINING_ANSWERS_VOCABULARY_H
#define RUNTIME_TRAINING_ANSWERS_VOCABULARY_H

#include "runtime/support/Status.h"
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace omnibal::rt {

/// The tokens of a tokenizer.json (Hugging Face's tokenizers), to read answers by: byte-level
/// tokens, as GPT-2, Qwen and Llama 3 have them, and pieces of SentencePiece with a mark for spaces
/// and <0xNN> for bytes. It only decodes.
class Vocabulary {
public:
  /// `where` stands in front of the message about a text that is no such file.
  static Result<Vocabulary> parse(std::string_view text, const std::string &where);

  /// Without special tokens; an id that has no token is written as <id>. Bytes that are no UTF-8
  /// are left as they are.
  std::string text(std::span<const int32_t> ids) const;

private:
  struct Token {
    std::string bytes;
    bool special = false;
  };
  Status add(int64_t id, std::string bytes, bool special, const std::string &where);

  std::unordered_map<int32_t, Token> tokens; ///< by id
};

/// Ids at which an answer ends: `eos_token_id` of generation_config.json or config.json, a number
/// or a list of them; none where it is missing.
std::vector<int32_t> endsOfAnswers(std::string_view config, const std::string &where);

} // namespace omnibal::rt
#endif // RUNTIME_TRAINING_ANSWERS_VOCABULARY_H
