//===- VocabularyFuzz.cpp - tokenizer.json, and where answers end
//-------------------------------===//
#include "runtime/training/answers/Vocabulary.h"
#include "test/fuzz/Fuzz.h"

namespace omnibal::fuzz {

const Allowance allowance;

void run(std::string_view input) {
  const auto vocabulary = rt::Vocabulary::parse(input, "tokenizer.json");
  for (int32_t id : rt::endsOfAnswers(input, "generation_config.json")) {
    require(id >= 0, "an answer ends at no token");
    if (vocabulary)
      (void)vocabulary->text({&id, 1});
  }
  if (!vocabulary)
    return;
  std::vector<int32_t> ids;
  for (int32_t id = -1; id < 300; ++id)
    ids.push_back(id);
  std::string joined;
  for (int32_t id : ids)
    joined += vocabulary->text({&id, 1});
  require(vocabulary->text(ids) == joined, "a token's text depends on the others");
}

} // namespace omnibal::fuzz
